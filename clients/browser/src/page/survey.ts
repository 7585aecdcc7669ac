/**
 * One script for two places: a survey's own page, whose element it brings to life, and any other
 * site, where `<script src="https://analyzer/embed.js" data-survey="…" defer></script>` puts the
 * survey where the script stands.
 */

import { ShoalSurvey } from "./element.js";

const NAME = "shoal-survey";

if (!customElements.get(NAME)) customElements.define(NAME, ShoalSurvey);

const script = document.currentScript;
if (script instanceof HTMLScriptElement && script.dataset.survey !== undefined) {
  const made = document.createElement(NAME);
  made.setAttribute("survey", script.dataset.survey);
  made.setAttribute("analyzer", script.dataset.analyzer ?? new URL(".", script.src).href);
  if (script.closest("head") === null) script.after(made);
  else document.body.append(made);
}

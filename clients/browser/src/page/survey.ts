/**
 * One script for two places: a survey's own page, whose element it brings to life, and any other
 * site, where `<script src="https://analyzer/embed.js" data-survey="…" defer></script>` puts the
 * survey where the script stands.
 */

import { ShoalSurvey } from "./element.js";
import { embed } from "./embed.js";

const NAME = "shoal-survey";

if (!customElements.get(NAME)) customElements.define(NAME, ShoalSurvey);

const script = document.currentScript;
if (script instanceof HTMLScriptElement) embed(script, NAME);

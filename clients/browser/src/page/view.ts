/** The survey's elements where no server has made them: all text, from the survey and its promise. */

import { ShoalError, type Admission, type Survey } from "../index.js";
import css from "../../../../src/shoal/web/survey.css" with { type: "text" };
import { fields } from "./choosing.js";
import { h } from "./dom.js";

export interface Promised {
  readonly survey: string;
  readonly epsilon: number;
  readonly delta: number;
  readonly minimum: number;
  readonly reports_per_person: number;
  readonly admission: Admission;
  readonly participation: number;
  readonly leaves: string;
  /** The same for each of several questions. */
  readonly each: readonly string[];
  readonly statements: readonly { readonly title: string; readonly text: string }[];
  readonly steps: readonly string[];
  readonly served: string;
}

/** A box in a root of its own, with its styles. The site's rules reach the host, never the box. */
export function shadow(host: HTMLElement): HTMLElement {
  const root = host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  root.adoptedStyleSheets = [sheet];
  const box = h("div", { class: "box" });
  root.append(box);
  return box;
}

export const told = (): HTMLElement => h("div", { class: "told", role: "status", tabindex: "-1" });
export const failed = (): HTMLElement => h("div", { class: "failed", role: "alert", tabindex: "-1" });

const fieldsOf = (value: object): string => JSON.stringify(Object.entries(value).sort());

/** What the analyzer promises about this survey; it must not say other numbers than the survey. */
export async function promised(base: string, survey: Survey): Promise<Promised> {
  const url = `${base}/v1/surveys/${survey.id}/promise`;
  const answer = await fetch(url, { credentials: "omit", referrerPolicy: "no-referrer" }).catch(() => null);
  if (!answer?.ok) throw new ShoalError("network", "What the survey promises could not be fetched.");
  const said = (await answer.json()) as Promised;
  const same =
    said.survey === survey.id &&
    said.epsilon <= survey.epsilon * (1 + 1e-9) &&
    said.delta === survey.delta &&
    said.minimum === survey.minimum &&
    said.reports_per_person === survey.reportsPerPerson &&
    fieldsOf(said.admission) === fieldsOf(survey.admission) &&
    said.participation === survey.participation;
  if (!same) throw new ShoalError("tampered", "The analyzer promises something else than the survey.");
  return said;
}

/** Where an invitation is typed in. */
export const invitationField = (): HTMLInputElement =>
  h("input", { name: "invitation", class: "name", autocapitalize: "characters", autocomplete: "off", spellcheck: "false" });

export function form(survey: Survey, words: Promised): HTMLFormElement {
  const question = h("h2", { class: "question", dir: "auto" }, survey.question);
  const fieldset = h(
    "fieldset",
    { disabled: "", "aria-describedby": "purpose leaves" },
    h("legend", {}, question),
    h("p", { id: "purpose", class: "purpose", dir: "auto" }, survey.purpose),
    h("p", { id: "leaves", class: "leaves" }, words.leaves),
    ...fields(survey, words.each ?? []), // an analyzer of an earlier release says nothing of each
  );
  const send = h("button", { type: "submit", disabled: "" }, "Send");
  return h("form", { novalidate: "", autocomplete: "off" }, fieldset, send);
}

/** What is promised and how it is kept; folded away, all of it, where there is little room. */
export function statement(base: string, survey: Survey, words: Promised, compact: boolean): HTMLElement[] {
  const rows = words.statements.map(({ title, text }) => h("li", {}, h("b", {}, title), text));
  const exact = h("a", { href: `${base}/v1/surveys/${survey.id}`, class: "name" }, survey.id);
  const title = "What you are promised";
  const parts = [
    h("ul", { class: "promise" }, ...rows),
    h("p", { class: "checked" }),
    h(
      "details",
      {},
      h("summary", {}, "How this protects you"),
      h("ol", { class: "steps" }, ...words.steps.map((step) => h("li", {}, step))),
      h("p", {}, words.served),
      h("p", { class: "bound" }),
      h("p", {}, "The survey, exactly as it is: ", exact),
    ),
  ];
  if (compact) return [h("details", { class: "promised" }, h("summary", {}, title), ...parts)];
  return [h("h3", { class: "title" }, title), ...parts];
}

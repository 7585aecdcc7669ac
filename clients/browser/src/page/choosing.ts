/** The part of the form that holds the answer: a list, a list to search in, or a number. */

import type { Survey } from "../index.js";
import { found, h } from "./dom.js";
import { NO_CHOICE, noNumber } from "./words.js";

const FEW = 12; // answers that are all shown; of more, some, and a field to find the others
const SHOWN = 50;

export interface Chooser {
  /** The answer, or what is wrong with it. */
  answer(): { value: string | number } | { wrong: string; where: HTMLElement };
}

/** What the fieldset holds below the question, where no server has made it. */
export function fields(survey: Survey): HTMLElement[] {
  if (survey.range !== null) {
    const [low, high] = survey.range;
    const field = h("input", {
      type: "number",
      name: "answer",
      class: "number",
      min: `${low}`,
      max: `${high}`,
      step: "any",
      inputmode: "decimal",
    });
    return [h("label", { class: "field" }, `Your number, from ${low} to ${high}`, field)];
  }
  if (survey.answers.length <= FEW)
    return [h("div", { class: "choices" }, ...survey.answers.map((text, i) => choice(i, text)))];
  const find = h("input", { type: "search", class: "find", autocomplete: "off" });
  return [
    h("label", { class: "field" }, "Find your answer", find),
    h("p", { class: "count", role: "status" }),
    h("div", { class: "choices many" }),
  ];
}

export function chooser(survey: Survey, fieldset: HTMLElement): Chooser {
  if (survey.range !== null) return number(survey.range, found(fieldset, ".number"));
  const list = found(fieldset, ".choices");
  const find = fieldset.querySelector<HTMLInputElement>(".find");
  if (find !== null) search(survey.answers, find, found(fieldset, ".count"), list);
  return {
    answer() {
      const chosen = survey.answers[picked(list)];
      if (chosen !== undefined) return { value: chosen };
      return { wrong: NO_CHOICE, where: find ?? found(list, "input") };
    },
  };
}

/** Whether a page shows what the survey asks. */
export function shows(survey: Survey, fieldset: HTMLElement): boolean {
  const plain = (text: string | null | undefined): string => (text ?? "").replace(/\s+/g, " ").trim();
  const same = (shown: Element | null | undefined, text: string | undefined): boolean =>
    plain(shown?.textContent) === plain(text);
  const labels = [...fieldset.querySelectorAll(".choice")];
  return (
    same(fieldset.querySelector(".question"), survey.question) &&
    same(fieldset.querySelector(".purpose"), survey.purpose) &&
    labels.length === Math.min(survey.answers.length, SHOWN) &&
    labels.every(
      (label, index) =>
        same(label, survey.answers[index]) && label.querySelector("input")?.value === `${index}`,
    )
  );
}

function choice(index: number, text: string): HTMLElement {
  const radio = h("input", { type: "radio", name: "answer", value: `${index}` });
  return h("label", { class: "choice" }, radio, h("span", { dir: "auto" }, text));
}

const picked = (list: Element): number =>
  Number(list.querySelector<HTMLInputElement>(":checked")?.value ?? -1);

function number([low, high]: readonly [number, number], field: HTMLInputElement): Chooser {
  return {
    answer() {
      const value = field.value.trim() === "" ? NaN : Number(field.value);
      return value >= low && value <= high
        ? { value }
        : { wrong: noNumber([low, high]), where: field };
    },
  };
}

/** Without accents and case, as people search. */
const folded = (text: string): string => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

function search(
  answers: readonly string[],
  find: HTMLInputElement,
  count: HTMLElement,
  list: HTMLElement,
): void {
  const keys = answers.map(folded);
  const show = (): void => {
    const wanted = folded(find.value.trim());
    const chosen = picked(list);
    const fitting = [...keys.keys()].filter((i) => keys[i]?.includes(wanted));
    const shown = fitting.slice(0, SHOWN);
    if (chosen >= 0 && !shown.includes(chosen)) shown.unshift(chosen);
    list.replaceChildren(...shown.map((i) => choice(i, answers[i] ?? "")));
    const again = list.querySelector<HTMLInputElement>(`[value="${chosen}"]`);
    if (again !== null) again.checked = true;
    const some = Math.min(fitting.length, SHOWN).toLocaleString("en");
    count.textContent =
      wanted === "" || fitting.length > SHOWN
        ? `${some} of ${fitting.length.toLocaleString("en")} answers are shown.`
        : `${some} answer${fitting.length === 1 ? " fits" : "s fit"}.`;
  };
  find.addEventListener("input", show);
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // a search is no answer: go to what was found
    list.querySelector("input")?.focus();
  });
  show();
}

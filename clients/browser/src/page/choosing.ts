/** The part of the form that holds the answers: a list, a list to search in, or a number each. */

import type { Answer, One, Question, Survey } from "../index.js";
import { found, h } from "./dom.js";
import { MAY_SKIP, NO_CHOICE, NO_GROUP, noNumber, ODDS, SKIPPED } from "./words.js";

const FEW = 12; // answers that are all shown; of more, some, and a field to find the others
const SHOWN = 50;

type Chosen<T> = { value: T } | { wrong: string; where: HTMLElement };

export interface Chooser<T = Answer> {
  /** The answer, or what is wrong with it. */
  answer(): Chosen<T>;
}

/** What the fieldset holds below the question, or a fieldset for each, where no server has made it. */
export function fields({ questions }: Survey, leaves: readonly string[]): HTMLElement[] {
  if (questions.length === 1) return fieldsOf(questions[0]!, "answer");
  return questions.map((question, i) =>
    h(
      "fieldset",
      { class: "asked" },
      h("legend", {}, h("h3", { class: "question", dir: "auto" }, question.question)),
      ...(question.required ? [] : [h("p", { class: "purpose" }, MAY_SKIP)]),
      ...fieldsOf(question, `answer-${i}`),
      h("details", { class: "odds" }, h("summary", {}, ODDS), h("p", {}, leaves[i] ?? "")),
    ),
  );
}

/** Answers or groups as people read them; the last one is that of whoever skips the question, if that may be. */
const spoken = ({ required }: Question, texts: readonly string[]): readonly string[] =>
  required ? texts : texts.map((text, i) => (i < texts.length - 1 ? text : SKIPPED));

function fieldsOf(question: Question, name: string): HTMLElement[] {
  const { by, groups, range } = question;
  const answers = spoken(question, question.answers);
  if (range !== null) {
    const [low, high] = range;
    const field = h("input", {
      type: "number",
      name,
      class: "number",
      min: `${low}`,
      max: `${high}`,
      step: "any",
      inputmode: "decimal",
    });
    return [h("label", { class: "field" }, `Your number, from ${low} to ${high}`, field)];
  }
  if (!groups.length) return choices(answers, name);
  const legend = h("legend", { class: "by", dir: "auto" }, by);
  return [
    h("div", { class: "own" }, ...choices(answers, name)),
    h("fieldset", { class: "group" }, legend, ...choices(spoken(question, groups), `${name}-group`)),
  ];
}

function choices(answers: readonly string[], name: string): HTMLElement[] {
  if (answers.length <= FEW)
    return [h("div", { class: "choices" }, ...answers.map((text, i) => choice(i, text, name)))];
  const find = h("input", { type: "search", class: "find", autocomplete: "off" });
  return [
    h("label", { class: "field" }, "Find your answer", find),
    h("p", { class: "count", role: "status" }),
    h("div", { class: "choices many" }),
  ];
}

/** Where each question is asked: of several, in a fieldset of its own. */
const placesOf = ({ questions }: Survey, fieldset: HTMLElement): HTMLElement[] =>
  questions.length === 1 ? [fieldset] : [...fieldset.querySelectorAll<HTMLElement>(".asked")];

export function chooser(survey: Survey, fieldset: HTMLElement): Chooser {
  const { questions } = survey;
  const places = placesOf(survey, fieldset);
  const each = questions.map((question, i) => chooserOf(question, places[i]!, questions.length === 1 ? "answer" : `answer-${i}`));
  if (questions.length === 1) return each[0]!;
  return {
    answer() {
      const value: Record<string, One | null> = {};
      let first: Chosen<never> | undefined;
      for (const [i, { name, required }] of questions.entries()) {
        const chosen = each[i]!.answer();
        if ("value" in chosen) value[name] = chosen.value;
        else if (required) return chosen;
        else first ??= chosen;
      }
      // Whoever chooses nothing at all has most likely not meant to send.
      return first && !Object.keys(value).length ? first : { value };
    },
  };
}

function chooserOf(question: Question, place: HTMLElement, name: string): Chooser<One> {
  const { answers, groups, range } = question;
  if (range !== null) return number(range, found(place, ".number"));
  const list = (texts: readonly string[], where: HTMLElement, part: string) =>
    listed(texts, spoken(question, texts), where, part);
  if (!groups.length) return list(answers, place, name);
  const own = list(answers, found(place, ".own"), name);
  const group = list(groups, found(place, ".group"), `${name}-group`);
  return {
    answer() {
      const [first, second] = [group.answer(), own.answer()];
      if ("value" in first && "value" in second) return { value: [first.value, second.value] };
      // One of the two may be skipped where a question may be.
      if (!question.required && "value" in first) return { value: [first.value, null] };
      if (!question.required && "value" in second) return { value: [null, second.value] };
      return "value" in second ? { ...(first as { where: HTMLElement }), wrong: NO_GROUP } : second;
    },
  };
}

function listed(answers: readonly string[], shown: readonly string[], place: HTMLElement, name: string): Chooser<string> {
  const list = found(place, ".choices");
  const find = place.querySelector<HTMLInputElement>(".find");
  if (find !== null) search(shown, find, found(place, ".count"), list, name);
  return {
    answer() {
      const chosen = answers[picked(list)];
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
  const places = placesOf(survey, fieldset);
  return (
    same(fieldset.querySelector(".question"), survey.question) &&
    same(fieldset.querySelector(".purpose"), survey.purpose) &&
    places.length === survey.questions.length &&
    survey.questions.every((asked, i) => {
      const { question, by, groups } = asked;
      const place = places[i]!;
      const lists = (list: ParentNode | null, texts: readonly string[]): boolean => {
        const labels = [...(list?.querySelectorAll(".choice") ?? [])];
        return (
          labels.length === Math.min(texts.length, SHOWN) &&
          labels.every((label, index) => same(label, texts[index]) && label.querySelector("input")?.value === `${index}`)
        );
      };
      return (
        same(place.querySelector(".question"), question) &&
        same(place.querySelector(".by"), by) &&
        lists(groups.length ? place.querySelector(".own") : place, spoken(asked, asked.answers)) &&
        lists(place.querySelector(".group"), spoken(asked, groups))
      );
    })
  );
}

function choice(index: number, text: string, name: string): HTMLElement {
  const radio = h("input", { type: "radio", name, value: `${index}` });
  return h("label", { class: "choice" }, radio, h("span", { dir: "auto" }, text));
}

const picked = (list: Element): number =>
  Number(list.querySelector<HTMLInputElement>(":checked")?.value ?? -1);

function number([low, high]: readonly [number, number], field: HTMLInputElement): Chooser<number> {
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
  name: string,
): void {
  const keys = answers.map(folded);
  const show = (): void => {
    const wanted = folded(find.value.trim());
    const chosen = picked(list);
    const fitting = [...keys.keys()].filter((i) => keys[i]?.includes(wanted));
    const shown = fitting.slice(0, SHOWN);
    if (chosen >= 0 && !shown.includes(chosen)) shown.unshift(chosen);
    list.replaceChildren(...shown.map((i) => choice(i, answers[i] ?? "", name)));
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

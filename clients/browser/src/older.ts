/**
 * Surveys of versions 1 to 3, rewritten as one of the present version: the same as `shoal.service.survey.older`. The
 * bytes and the id of a survey stay; nothing else knows of these versions. Loaded with such a survey.
 */

import { isFields, isWhole, type Fields } from "./canonical.js";
import type { Survey } from "./types.js";

const NONE = "(none)";

/** A document of the present version, where what is not known stays; undefined if it is none of its own version. */
export function present(stored: Fields): Fields | undefined {
  const { version, ...told } = stored;
  const { dishonest, kind } = (told.admission ?? {}) as Fields;
  if (version !== 1 && (kind === "open" || kind === "invited") && !isWhole(dishonest)) return;
  const several = "questions" in told;
  if ((version === 3) !== (several || "groups" in told)) return;
  if (version === 1) {
    const share = told.dishonest as number;
    if ("admission" in told || !(share >= 0 && share < 1)) return;
    told.admission = { kind: "open", dishonest: told.dishonest };
    delete told.dishonest;
  }
  let items = told.questions as Fields[];
  if (!several) {
    const only: Fields = {};
    for (const name of ["question", "answers", "by", "groups", "mechanism", "sampler", "message_bytes", "slots"]) {
      if (name in told) only[name] = told[name];
      delete told[name];
    }
    items = [only];
  } else if (!Array.isArray(items) || items.length < 2) return;
  return { ...told, version: 4, questions: items.map((item) => (isFields(item) ? itemOf(item, several) : item)) };
}

/** A question and its mechanism; `skipped`: some of those who are asked give no answer, the last one. */
function itemOf({ name, question: text, answers, by, groups, ...rest }: Fields, skipped: boolean): Fields {
  const asked = { name: skipped ? name : "answer", text };
  const ends = { other: false, ...(skipped ? {} : { missing: "refuse" }) };
  const listed = (texts: unknown): unknown => {
    if (!skipped || !Array.isArray(texts)) return texts;
    return texts.at(-1) === NONE ? texts.slice(0, -1) : undefined;
  };
  if (Array.isArray(answers) && !answers.length) {
    const { low, high } = (rest.mechanism ?? {}) as Fields;
    Object.assign(rest, groups !== undefined && { groups }, by !== undefined && { by }); // which numbers do not have
    return { ...rest, question: { kind: "number", ...asked, low, high } };
  }
  const question: Fields = { kind: "choice", ...asked, labels: listed(answers), ...ends };
  if (groups !== undefined) {
    const column = asked.name === "group" ? "group-of-group" : "group";
    question.groups = { column, labels: listed(groups), text: by, ...ends };
  } else if (by !== undefined) rest.by = by;
  return { ...rest, question };
}

/** How many reports of the smallest batch are honest: of an early version, as a share of the reports. */
export function honestOf({ minimum, reportsPerPerson, admission: { dishonest } }: Survey): number {
  if (isWhole(dishonest)) return Math.max(0, minimum - reportsPerPerson * dishonest);
  // The share as it was written: 0.1 is one tenth, not the float next to it.
  const [digits, exponent] = (dishonest as number).toExponential().split(/\.?e/) as [string, string];
  const [whole, places = ""] = digits.split(".") as [string, string?];
  const unit = 10n ** BigInt(places.length - Number(exponent));
  return Number((BigInt(minimum) * (unit - BigInt(whole + places))) / unit);
}

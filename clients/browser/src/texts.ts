/**
 * Texts of a survey that show what they are: nothing hidden in them, no two answers that look alike, and none that
 * reads as that of those who skip a question. The same as `shoal.service.survey.texts`; loaded with surveys that
 * are not in plain ASCII, or have questions that may be skipped.
 */

import table from "../../../src/shoal/service/survey/lookalikes.txt" with { type: "text" };
import type { Fields } from "./canonical.js";
import type { Question } from "./types.js";

const HIDDEN =
  /[\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/u;
const JOINING = "[\\u0600-\\u0dff\\u1780-\\u18af]";
const EMOJI = "[\\xa9\\xae\\u203c\\u2049\\u2122\\u2139\\u2190-\\u2bff\\u3030\\u303d\\u3297\\u3299\\u{1f000}-\\u{1faff}]";
/** Where a script or an emoji needs what is hidden elsewhere. */
const NEEDED = new RegExp(
  [
    "\\u{1f3f4}[\\u{e0020}-\\u{e007e}]+\\u{e007f}",
    `${JOINING}[\\u200c\\u200d](?=${JOINING})`,
    "[\\u1800-\\u18af][\\u180b-\\u180f]",
    "[0-9#*]\\ufe0f(?=\\u20e3)",
    `${EMOJI}[\\ufe0e\\ufe0f]?(?:\\u200d(?=${EMOJI}))?`,
  ].join("|"),
  "gu",
);
const SCRIPTS = [
  /[A-Za-z\u00c0-\u024f\u1e00-\u1eff]/,
  /[\u0370-\u03ff\u1f00-\u1fff]/,
  /[\u0400-\u052f]/,
  /[\u0530-\u058f]/,
  /[\u13a0-\u13ff\uab70-\uabbf]/,
  /[\ua4d0-\ua4ff]/,
];
const LATIN = new Map(
  table
    .trim()
    .split("\n")
    .flatMap((line) => [...line.slice(2)].map((letter) => [letter, line[0]!] as const)),
);

const scriptsOf = (text: string): string => SCRIPTS.map((script) => script.test(text)).join();

/** What a text looks like: accents apart, without joiners, in Latin letters; compatible letters are the same, or not. */
const skeleton = (text: string, form = "NFKD"): string =>
  [...text.normalize(form)]
    .map((letter) => LATIN.get(letter) ?? letter)
    .join("")
    .replace(/[\u200c\u200d\ufe0e\ufe0f]/g, "")
    .replace(/\s+/g, " ")
    .trim();

const shown = (text: unknown): boolean => !HIDDEN.test(String(text).replace(NEEDED, "a"));

function apart(texts: readonly string[]): boolean {
  const seen = new Map<string, string>();
  const others = texts.at(-1) === "(none)" ? texts.slice(0, -1) : [];
  if (others.some((text) => /^(\(none\)|i prefer not to say)$/i.test(skeleton(text)))) return false;
  if (new Set(texts.map((text) => skeleton(text, "NFD"))).size < texts.length) return false;
  return texts.every((text) => {
    const key = skeleton(text);
    const scripts = seen.get(key) ?? scriptsOf(text);
    seen.set(key, scripts);
    return scripts === scriptsOf(text);
  });
}

/** The first field of a survey, or of one of its questions, whose texts do not show what they are. */
export function hiddenField({ name, purpose }: Fields, questions: readonly Question[]): string | undefined {
  if (!shown(name)) return "name";
  if (!shown(purpose)) return "purpose";
  for (const { question, by, answers, groups } of questions) {
    if (!shown(question)) return "question";
    if (!shown(by)) return "by";
    for (const [field, texts] of Object.entries({ answers, groups })) {
      if (!texts.every(shown) || !apart(texts)) return field;
    }
  }
  return undefined;
}

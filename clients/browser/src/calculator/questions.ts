/** What is asked: read from the fields, kept in a link, and written as a command of the library. */

import type { AmplifyQuestion } from "./amplification.js";
import type { PlanQuestion } from "./planning.js";
import { FAMILIES } from "./randomizers.js";
import { counted, down, plain } from "./text.js";

export type Question = AmplifyQuestion | PlanQuestion;
export type Ask = Question["ask"];

/** What somebody typed, by field. */
export type Typed = Readonly<Record<string, string>>;

interface Field {
  readonly least: number;
  readonly most: number;
  readonly whole?: boolean;
}

export const FIELDS: Readonly<Record<string, Field>> = {
  e0: { least: 0.001, most: 20 },
  epsilon: { least: 0.001, most: 10 },
  n: { least: 2, most: 1e9, whole: true },
  delta: { least: 1e-15, most: 0.1 },
  k: { least: 2, most: 1e5, whole: true },
};

/** Which fields a question has. */
export const fieldsOf = (ask: Ask, typed: Typed): readonly string[] =>
  ask === "plan" ? ["epsilon", "n", "delta", "k"] : ["e0", "n", "delta", ...(needsAnswers(typed) ? ["k"] : [])];

const needsAnswers = ({ randomizer = "any" }: Typed): boolean => FAMILIES.has(randomizer);

/** A number as people write it: 100000, 100,000, 100 000, 1e5 or 0.000001; 0,005 is none, and not 5. */
export function numberOf(text: string): number {
  const digits = text.trim().replace(/(?<=[1-9.][\d,\s_]*)[,\s_](?=\d{3}(?!\d))/g, "");
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(digits) ? Number(digits) : NaN;
}

/** The δ of a guarantee that nobody chose one for, as the library has it, in the digits of a link. */
export const defaultDelta = (n: number): number => Number(down(Math.min(1e-6, 1 / (10 * n)), 12));

/** What the library warns of: one record, drawn at random and published, is (0, 1/n)-private. */
export const deltaWarning = (delta: number, n: number): string =>
  delta < 1 / n ? "" : `δ is not smaller than 1/n: publishing the datum of one of the ${counted(n)} people, drawn at random, would pass too`;

/** Where a point may stand between groups of digits, as in 20.000. */
const GROUPING_POINT = /\.\d{3}(?![\de])/i;

function ambiguous(text: string): string {
  const meant = /^[1-9]\d*(\.\d{3})+$/.test(text) ? Number(text.replaceAll(".", "")) : 100_000;
  return `Ambiguous: write ${plain(meant)} or ${counted(meant)}.`;
}

/** What is wrong with a field, in a sentence that fits below it; empty if nothing is. */
export function complaint(name: string, text: string): string {
  const { least, most, whole = false } = FIELDS[name]!;
  const value = numberOf(text);
  if (!text.trim()) return name === "delta" ? "" : `Needed: ${shown(least)} to ${shown(most)}.`;
  if (whole && GROUPING_POINT.test(text)) return ambiguous(text.trim());
  if (Number.isNaN(value)) return `Not a number: write ${whole ? "100000 or 1e5" : "0.5 or 1e-6"}.`;
  if (whole && !Number.isInteger(value)) return "Not a whole number.";
  if (value < least) return `At least ${shown(least)}.`;
  if (value > most) return `At most ${shown(most)} here.`;
  return "";
}

const shown = (value: number): string => (value >= 1000 ? counted(value) : plain(value));

/** The question, if nothing is wrong with it. */
export function questionOf(ask: Ask, typed: Typed): Question | null {
  if (fieldsOf(ask, typed).some((name) => complaint(name, typed[name] ?? ""))) return null;
  const value = (name: string) => numberOf(typed[name] ?? "");
  const n = value("n");
  const common = { n, delta: typed.delta?.trim() ? value("delta") : defaultDelta(n) };
  if (ask === "plan") return { ask, ...common, epsilon: value("epsilon"), k: value("k") };
  const known = needsAnswers(typed);
  return { ask, ...common, localEpsilon: value("e0"), randomizer: known ? typed.randomizer! : "any", k: known ? value("k") : 2 };
}

/** The part of a link after #, and back. */
export function fragmentOf(question: Question): string {
  const { ask, n, delta, k } = question;
  const parts: Record<string, string> = { ask };
  if (ask === "plan") parts.epsilon = plain(question.epsilon);
  else parts.e0 = plain(question.localEpsilon);
  Object.assign(parts, { n: plain(n), delta: plain(delta) });
  if (ask === "amplify" && question.randomizer !== "any") parts.randomizer = question.randomizer;
  if (ask === "plan" || question.randomizer !== "any") parts.k = plain(k);
  return `#${new URLSearchParams(parts)}`;
}

export function typedIn(fragment: string): (Typed & { readonly ask: Ask }) | null {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const ask = parts.get("ask");
  return ask === "amplify" || ask === "plan" ? { ...Object.fromEntries(parts), ask } : null;
}

/** The same question to the library: on the command line, and in Python. */
export function commandsOf(question: Question): { readonly shell: string; readonly python: string } {
  const { n, delta, k } = question;
  const [people, at] = [plain(n), plain(delta)];
  if (question.ask === "plan") {
    const epsilon = plain(question.epsilon);
    return {
      shell: `shoal plan --epsilon ${epsilon} --n ${people} --delta ${at} --categories ${k}`,
      python: `shoal.plan(shoal.Choice("answer", ${k}), epsilon=${epsilon}, n=${people}, delta=${at})`,
    };
  }
  const { localEpsilon, randomizer } = question;
  const local = plain(localEpsilon);
  const known = randomizer !== "any";
  return {
    shell: `shoal amplify ${known ? `--randomizer ${randomizer} --k ${k} ` : ""}--local-epsilon ${local} --n ${people} --delta ${at}`,
    python: known
      ? `shoal.amplify(shoal.${CLASSES[randomizer]}(k=${k}, epsilon=${local}), n=${people}, delta=${at})`
      : `shoal.amplify(local_epsilon=${local}, n=${people}, delta=${at})`,
  };
}

const CLASSES: Readonly<Record<string, string>> = {
  grr: "RandomizedResponse",
  hadamard: "HadamardResponse",
  projective: "ProjectiveGeometryResponse",
  subset: "SubsetSelection",
  unary: "UnaryEncoding",
  hashing: "LocalHashing",
};

/**
 * Question B: which randomizer of one message, at which ε₀, and how wrong the counts will be. As
 * `shoal plan` has it, with the bounds of this page: ε₀ keeps the target, and the library allows as much.
 */

import { crowdDelta } from "../bound.js";
import { fineOthers } from "./others.js";
import { FAMILIES, hashing, type Family, type Randomizer } from "./randomizers.js";

export interface PlanQuestion {
  readonly ask: "plan";
  readonly epsilon: number;
  readonly n: number;
  readonly delta: number;
  readonly k: number;
}

/** Errors of the estimated counts, in people. */
export interface Errors {
  readonly l2: number;
  readonly cell: number;
}

export interface Option {
  readonly name: string;
  /** Without it, the remark says why there is none. */
  readonly found?: { readonly localEpsilon: number; readonly errors: Errors; readonly bits: number };
  readonly remark?: string;
}

export type PlanStep =
  | { readonly step: "option"; readonly option: Option }
  | { readonly step: "plan"; readonly options: readonly Option[]; readonly reason: string };

const AGREEMENT = 1e-4; // of ε: more than the library's own rounding, so that ε₀ is not above its answer
const LARGEST = 25; // ε₀
const TOLERANCE = 1e-4; // of ε₀
const STEP = 1.05;
const [AHEAD, STEPS_AHEAD, HALVINGS, MOST_AHEAD] = [0.9, 6, 12, 8]; // where other sets of outputs are looked for
const LARGEST_VECTOR = 10_000; // answers: beyond, a message with a bit per answer is too long
const LARGEST_DECODING = 1e10; // reports times answers
const BUCKETS = [2, 4, 8, 16, 64, 256, 1024, 4096];
const ALIKE = 1.02;

const inverseSinh = (x: number): number => (2 * Math.exp(-x)) / -Math.expm1(-2 * x);
const counted = (value: number): string => value.toLocaleString("en-US");

/** A trusted curator's discrete Laplace noise; of two answers one count is enough. */
export function central({ k, epsilon }: PlanQuestion): Errors {
  const cell = Math.SQRT1_2 * inverseSinh((k === 2 ? epsilon : epsilon / 2) / 2);
  return { l2: cell * Math.sqrt(k), cell };
}

/** The best that is known without a shuffler. */
export function local({ k, epsilon, n }: PlanQuestion): Errors {
  const cell = Math.sqrt(n) * inverseSinh(epsilon / 2);
  return { l2: cell * Math.sqrt(k), cell };
}

const l2Of = ({ total }: Randomizer, n: number): number => Math.sqrt(n * total);

/** How far δ of a family at ε₀ is from the target: at most 0 where it is kept, and nearly linear in ε₀. */
function excessOf(family: Family, { epsilon, n, delta, k }: PlanQuestion): (localEpsilon: number) => number {
  const target = epsilon * (1 - AGREEMENT);
  const known = new Map<number, number>();
  const depth = -Math.log(delta);
  return (localEpsilon) => {
    let excess = known.get(localEpsilon);
    if (excess === undefined) {
      const deltas = family(localEpsilon, k).laws.map((law) =>
        Math.log(law.a) <= target ? 0 : crowdDelta(law, n, delta, target, fineOthers()),
      );
      const worst = Math.max(...deltas, Number.MIN_VALUE);
      excess = worst <= delta ? Math.min(0, -Math.log(-Math.log(worst) / depth)) : worst < 1 ? Math.log(depth / -Math.log(worst)) : 9;
      known.set(localEpsilon, excess);
    }
    return excess;
  };
}

/** From a kept ε₀ on to the first that is not, or the largest: one that was evaluated, and is kept. */
function largestKept(excess: (localEpsilon: number) => number, from: number): number {
  let [low, high, step] = [from, from, STEP];
  while (excess(high) <= 0) {
    if (high >= LARGEST) return high;
    [low, high, step] = [high, Math.min(step * high, LARGEST), step * step];
  }
  // The Illinois method: an end that stays counts half.
  let [below, above] = [excess(low), excess(high)];
  let side = 0;
  while (high - low > TOLERANCE * low) {
    const share = Math.min(0.9, Math.max(0.1, below / (below - above) || 0.5));
    const middle = low + (high - low) * share;
    const value = excess(middle);
    if (value <= 0) {
      [low, below] = [middle, value];
      if (side < 0) above /= 2;
      side = -1;
    } else {
      [high, above] = [middle, value];
      if (side > 0) below /= 2;
      side = 1;
    }
  }
  return low;
}

/** Where, a little beyond, a family begins to have other sets of outputs: δ falls there. */
function shapesAhead(family: Family, k: number, from: number): number[] {
  const shape = (at: number) => family(at, k).shape;
  if (shape(from) === undefined) return [];
  const end = Math.min(from + AHEAD, LARGEST);
  const found: number[] = [];
  let at = from;
  for (let i = 1; i <= STEPS_AHEAD && found.length < MOST_AHEAD; i++) {
    const last = from + ((end - from) * i) / STEPS_AHEAD;
    while (shape(at) !== shape(last) && found.length < MOST_AHEAD) {
      const here = shape(at);
      let [low, high] = [at, last];
      for (let j = 0; j < HALVINGS; j++) {
        const middle = (low + high) / 2;
        if (shape(middle) === here) low = middle;
        else high = middle;
      }
      found.push((at = high));
    }
    at = last;
  }
  return found;
}

/** The largest ε₀ of a family that keeps the target, as far as it is found. */
export function largestLocalEpsilon(family: Family, question: PlanQuestion, near?: number): number {
  const { epsilon, n, delta, k } = question;
  const excess = excessOf(family, question);
  const least = epsilon * (1 - AGREEMENT); // without any crowd
  const about = Math.log(n) - Math.log(4 * (Math.log(4) - Math.log(delta))) + 2 * Math.log(epsilon);
  let start = Math.min(LARGEST, Math.max(least, near ?? about));
  for (let step = STEP; start > least && excess(start) > 0; step *= step) start = Math.max(least, start / step);
  let solved = largestKept(excess, start);
  for (;;) {
    const ahead = shapesAhead(family, k, solved).filter((at) => excess(at) <= 0);
    if (!ahead.length) return solved;
    solved = largestKept(excess, ahead.at(-1)!);
  }
}

function optionOf(name: string, family: Family, question: PlanQuestion, near?: number): Option {
  const localEpsilon = largestLocalEpsilon(family, question, near);
  const made = family(localEpsilon, question.k);
  const errors = { l2: l2Of(made, question.n), cell: Math.sqrt(question.n * made.empty) };
  return { name, found: { localEpsilon, errors, bits: made.bits } };
}

/** Whether no ε₀ that keeps the target makes a family better than this error, which falls in ε₀. */
function surelyWorse(family: Family, question: PlanQuestion, target: number): boolean {
  const error = (at: number) => l2Of(family(at, question.k), question.n);
  let [low, high] = [question.epsilon, LARGEST];
  if (error(high) >= target) return true;
  if (error(low) < target) return false;
  while (high - low > 1e-3 * low) {
    const middle = (low + high) / 2;
    if (error(middle) >= target) low = middle;
    else high = middle;
  }
  return excessOf(family, question)(low) > 0;
}

/** Local hashing with the best of several numbers of buckets; the likeliest is tried first. */
function bestHashing(question: PlanQuestion, near: number): Option {
  const error = (buckets: number) => l2Of(hashing(buckets)(near, question.k), question.n);
  let best: Option | undefined;
  for (const buckets of [...BUCKETS].sort((one, other) => error(one) - error(other))) {
    const family = hashing(buckets);
    if (best?.found && surelyWorse(family, question, best.found.errors.l2)) continue;
    const option = optionOf("hashing", family, question, near);
    if (!best?.found || option.found!.errors.l2 < best.found.errors.l2) best = option;
  }
  return best!;
}

const errorOf = ({ found }: Option): number => (found ? Number(found.errors.l2.toPrecision(5)) : Infinity);

/** Smallest L2 error first; among those within 2 % of it, the one that sends least. */
function ranked(tried: readonly Option[]): { options: readonly Option[]; reason: string } {
  const ordered = [...tried].sort((one, other) => errorOf(one) - errorOf(other) || 0);
  const l2 = (option: Option) => option.found?.errors.l2 ?? Infinity;
  const alike = ordered.filter((option) => l2(option) <= ALIKE * l2(ordered[0]!));
  const bits = (option: Option) => Number((option.found?.bits ?? Infinity).toFixed(3));
  const first = alike.reduce((best, each) =>
    bits(each) < bits(best) || (bits(each) === bits(best) && tried.indexOf(each) < tried.indexOf(best)) ? each : best,
  );
  const others = ordered.filter((option) => option !== first);
  const second = others[0];
  if (!second?.found) return { options: [first, ...others], reason: "it is the only one possible" };
  const ratio = l2(second) / l2(first);
  const reason =
    ratio <= ALIKE
      ? `it sends least of those with the smallest error (${second.name} ties)`
      : `its error is the smallest: ${second.name}, the next, has ${ratio.toFixed(2)} times as much`;
  return { options: [first, ...others], reason };
}

/** The options as they are found, then all of them, best first. */
export function* plan(question: PlanQuestion): Generator<PlanStep> {
  const { n, k } = question;
  const limits = new Map<string, string>();
  if (k > LARGEST_VECTOR) for (const name of ["subset", "unary"]) limits.set(name, `a message of ${counted(k)} bits is too long`);
  if (n * k > LARGEST_DECODING) limits.set("hashing", `decoding tries ${counted(k)} answers on each of ${counted(n)} reports`);
  const tried: Option[] = [];
  let near: number | undefined;
  for (const [name, family] of FAMILIES) {
    const remark = limits.get(name);
    let option: Option;
    if (remark) option = { name, remark };
    else if (name === "hashing") option = bestHashing(question, near!);
    else option = optionOf(name, family, question, near);
    near = option.found?.localEpsilon ?? near;
    tried.push(option);
    yield { step: "option", option };
  }
  yield { step: "plan", ...ranked(tried) };
}

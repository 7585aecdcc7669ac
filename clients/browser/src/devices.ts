/** What mechanisms are made of, whichever they are. */

import type { Law } from "./bound.js";
import type { Bytes } from "./bytes.js";
import { isWhole, type Fields } from "./canonical.js";
import { pick, type Below } from "./random.js";

/** A mechanism, ready to draw. */
export interface Device {
  readonly messageBytes: number;
  readonly slots: number;
  /** ε₀ of one report; Infinity if only the crowd hides an answer. */
  readonly epsilon: number;
  /** What tells two answers apart, one law for each kind of pair; none if there are more messages. */
  readonly laws: readonly Law[];
  /** Others may know more of it than these laws say, and prove a smaller ε. */
  readonly loose?: boolean;
  /** The bytes of a slot that is not sent, in hexadecimal digits; without them all slots are. */
  readonly absent?: string;
  /** The bounds of a number. */
  readonly range: readonly [number, number] | null;
  /** The messages of one person, one after the other. */
  draw(value: number, below: Below): Bytes;
}

export type Made = Omit<Device, "range" | "slots" | "laws"> & Partial<Device>;
/** Null: this client does not know how. */
export type Maker = (parameters: Fields, sampler: Fields, k: number) => Made | null;

/** By name: who makes it, what its parameters are, and how many answers it has (0: as many as are
 *  listed; −1: it is for numbers). */
export type Known = ReadonlyMap<unknown, readonly [Maker, string, number]>;

const LARGEST_EPSILON = 30;

/** Numbers that do not belong together. The error is a built-in one: what is loaded later has its own
 *  copy of this file, and a class of the one is not that of the other. */
export function must(holds: unknown): asserts holds {
  if (!holds) throw new RangeError();
}

export function whole(value: unknown, least = 1): number {
  must(isWhole(value, least));
  return value;
}

/** Bytes that hold every whole number below the limit. */
export const width = (limit: number): number => Math.ceil((limit - 1).toString(2).length / 8);

/** A whole number in so many bytes, the first the most significant. */
export const bigEndian = (number: number | bigint, bytes: number): Bytes =>
  Uint8Array.from({ length: bytes }, (_, i) => Number((BigInt(number) >> BigInt(8 * (bytes - 1 - i))) & 255n));

/** log((low + more)/low), a little more rather than less, if it is not above what the parameters say. */
export function local(more: number, low: number, stated: unknown): number {
  const found = Math.log1p(more / low); // of a quotient near 1 the logarithm would be of its rounding
  must(typeof stated === "number" && stated <= LARGEST_EPSILON && found > 0 && found <= stated * (1 + 1e-12));
  return Math.min(found * (1 + 1e-15) + 1e-15, stated);
}

/** Odds high : low for so many outputs each. */
export function odds({ high: h, low: l, total: t }: Fields, stated: unknown, highs: number, lows: number) {
  const [high, low, total] = [whole(h), whole(l), whole(t)];
  must(highs >= 1 && lows >= 1 && total === highs * high + lows * low);
  return { high, low, total, epsilon: local(high - low, low, stated), a: high / low, each: low / total };
}

/** Messages that are whole numbers below `outputs`. */
export const numbered = (outputs: number, draw: (value: number, below: Below) => number) => {
  const messageBytes = width(outputs);
  return { messageBytes, draw: (value: number, below: Below) => bigEndian(draw(value, below), messageBytes) };
};

/** One bit per answer, the first answer's first. */
export const bits = (k: number, isSet: (place: number) => boolean): Bytes => {
  const row = new Uint8Array(Math.ceil(k / 8));
  for (let i = 0; i < k; i++) if (isSet(i)) row[i >> 3]! |= 128 >> (i & 7);
  return row;
};

/** k-ary randomized response: a draw below high − low keeps the truth, the rest is k equal slices. */
export const response = (sampler: Fields, stated: unknown, k: number) => {
  const { high, low, total, epsilon, a, each } = odds(sampler, stated, 1, k - 1);
  return {
    epsilon,
    laws: [{ a, q: each }],
    draw(truth: number, below: Below) {
      const drawn = pick(below, total) - (high - low);
      return drawn < 0 ? truth : Math.floor(drawn / low);
    },
  };
};

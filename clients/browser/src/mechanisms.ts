/**
 * What a device draws: the same messages, with the same chances, as `shoal.mechanisms`,
 * from the whole numbers that the survey states. The mechanisms that most surveys use are here; the others are a file of their own, loaded with the first survey that needs one.
 *
 * The whole numbers decide what is really drawn. So ε₀ is worked out from them, and they are refused
 * if they give more than the mechanism's parameters say, or are not of its shape.
 */

import type { Law } from "./bound.js";
import { has, type Fields } from "./canonical.js";
import { must, numbered, odds, response, whole, type Device, type Known, type Maker } from "./devices.js";
import { ShoalError } from "./errors.js";
import { pick } from "./random.js";

const grr: Maker = ({ epsilon }, sampler, k) => {
  must(has(sampler, "high low total"));
  const made = response(sampler, epsilon, k);
  return { ...made, ...numbered(k, made.draw) };
};

/** The finalizer of SplitMix64: which answer lives where is public, and the same on every machine. */
const GOLDEN = 0x9e3779b97f4a7c15n;
const word = (value: bigint): bigint => BigInt.asUintN(64, value);
const mixed = (value: bigint): bigint => {
  value = word((value ^ (value >> 30n)) * 0xbf58476d1ce4e5b9n);
  value = word((value ^ (value >> 27n)) * 0x94d049bb133111ebn);
  return value ^ (value >> 31n);
};

const parity = (value: number): number => {
  let odd = 0;
  for (; value; value &= value - 1) odd ^= 1;
  return odd;
};

/** The place of an answer in the public order of all k, in blocks of this size. */
export function homeOf(answer: number, k: number, size: number): number {
  const start = word((BigInt(k) * GOLDEN) ^ BigInt(size)) * GOLDEN;
  const order = (each: number) => mixed(word((BigInt(each) + word(start)) * GOLDEN));
  const own = order(answer);
  let home = 0;
  for (let other = 0; other < k; other++) if (order(other) < own) home++;
  return home;
}

const hadamard: Maker = ({ epsilon: stated }, sampler, k) => {
  must(has(sampler, "blocks high low total width"));
  const [blocks, size] = [whole(sampler.blocks), whole(sampler.width, 2)];
  must(size <= 1 << 25 && !(size & (size - 1)) && blocks * (size - 1) >= k);
  const { high, low, total, epsilon, a, each } = odds(sampler, stated, 1, 2 * blocks - 1);
  const laws: Law[] = [];
  if (k > blocks) laws.push({ a, q: each / 2, both: each / 2 });
  if (blocks > 1) laws.push({ a, q: each });
  return {
    epsilon,
    laws,
    ...numbered(blocks * size, (truth, below) => {
      const home = homeOf(truth, k, size);
      const pattern = 1 + Math.floor(home / blocks);
      const drawn = pick(below, total) - (high - low);
      let place = pick(below, size);
      if (drawn < 0 && parity(place & pattern)) place ^= pattern & -pattern;
      return (drawn < 0 ? home % blocks : Math.floor(drawn / (2 * low))) * size + place;
    }),
  };
};

const COMMON: Known = new Map([
  ["grr", [grr, "epsilon k name", 0]],
  ["hadamard", [hadamard, "epsilon k name", 0]],
]);

/** What fewer surveys need, if it can be had. */
export async function more() {
  try {
    return await import("./more_mechanisms.js");
  } catch {
    throw new ShoalError("network", "A part of this client that the survey needs cannot be fetched.");
  }
}

/**
 * The mechanism of a survey with so many answers; null if this client does not know it. Numbers that
 * do not belong together throw a RangeError, and what is no object at all a TypeError.
 */
export async function deviceOf(mechanism: Fields, sampler: Fields, answers: number): Promise<Device | null> {
  const { name } = mechanism;
  const found = COMMON.get(name) ?? (await more()).MORE.get(name);
  if (!found) return null;
  const [make, fields, wanted] = found;
  must(has(mechanism, fields));
  if (wanted === 0) must(answers >= 2 && mechanism.k === answers);
  else must(answers === Math.max(wanted, 0));
  const made = make(mechanism, sampler, answers);
  return made && { range: null, slots: 1, laws: [], ...made };
}

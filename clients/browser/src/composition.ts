/**
 * ε at δ of several rounds, of questions or reports, worked out on the device: an upper bound, by their privacy
 * losses. `shoal.service.survey.browser` does the same, to tell before a survey is written what devices will say.
 *
 * Let H(x) = δ(log x) be the curve of a question, for the worst of its pairs P, Q of outputs in either order. It
 * is convex in x, so it lies below the lines through bounds of it at some points; beyond the last one it is below
 * that one's, which counts as lost. The lines are the curve of a pair with losses log P/Q on a grid: Q has at a
 * point what the slope changes there, P that times x (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the
 * Dots: Tighter Discrete Approximations of Privacy Loss Distributions", PoPETs 2022). As both orders have this
 * curve, P has at −log x what Q has at log x. The curve of adaptive rounds is below that of independent pairs,
 * whose losses add up (Zhu, Dong, Wang, "Optimal Accounting of Differential Privacy via Characteristic Function",
 * AISTATS 2022). It grows with every mass and every loss, and only with them: so a mass may be too large, one below
 * 0 is 0, the smallest losses are raised, and the largest are lost. Masses are positive, and what floating point
 * loses of their products and sums is a share below 10⁻⁹, which is less than what is spared of δ.
 */

import { apart, curve, LOST, solved, type Law } from "./bound.js";

const POINTS = 96; // of a curve, and about as many cells of the grid
const COARSE = 0.3; // steps and places of a curve, for each of those that one alone has
const NEAR = 0.02; // by so much the last point may be too far
const CUT = 0.01; // of δ: what is left to losses beyond it
const TRIMMED = 0.01; // of that: what is left to each end of a sum
const ROUNDED = 1e-12; // of a slope: more than the difference to the next is rounded by

/** The bounds of a curve at equal steps from 0 to the last point. */
interface Points {
  last: number;
  heights: readonly number[];
}

/** Masses of losses, `mass[i]` at `first + i` steps of a grid, and what counts as lost. */
interface Losses {
  first: number;
  mass: Float64Array;
  lost: number;
}

/** ε at δ of several questions, each with its laws, asked so often of n people. */
export function composedEpsilon(questions: readonly (readonly Law[])[], times: number, n: number, delta: number): number {
  const cut = (CUT * delta) / times / questions.length;
  const alike = new Map<string, Points>();
  const curves = questions.map((laws) => {
    const key = JSON.stringify(laws);
    const found = alike.get(key) ?? pointsOf(laws, n, cut);
    alike.set(key, found);
    return found;
  });
  const width = Math.hypot(...curves.map(({ last }) => last)) / Math.sqrt(curves.length) / POINTS;
  let all: Losses = { first: 0, mass: new Float64Array([1]), lost: 0 };
  for (const each of curves) {
    let one = lossesOf(each, width);
    for (let left = times; left; left >>= 1) {
      if (left & 1) all = added(all, one, cut * TRIMMED);
      if (left > 1) one = added(one, one, cut * TRIMMED);
    }
  }
  const sum = times * curves.reduce((before, { last }) => before + last, 0);
  return Math.min(epsilonOf(all, width, delta), sum);
}

function pointsOf(laws: readonly Law[], n: number, cut: number): Points {
  const all = laws.map((law) => curve(law, n, cut, apart, COARSE));
  const last = Math.max(1e-9, ...laws.map((law, i) => solved(all[i]!, law, cut, NEAR)));
  const height = (epsilon: number) => Math.max(...all.map((each) => each(epsilon))) + LOST * cut;
  return { last, heights: Array.from({ length: POINTS + 1 }, (_, i) => height((last * i) / POINTS)) };
}

/** The losses of a curve below these points, on a grid that need not have them. */
function lossesOf({ last, heights }: Points, width: number): Losses {
  const cells = Math.ceil(last / width);
  const mass = new Float64Array(2 * cells + 1);
  const step = last / POINTS;
  const heightAt = (cell: number): number => {
    const place = Math.min((cell * width) / step, POINTS);
    const below = Math.min(Math.floor(place), POINTS - 1);
    const part = Math.expm1((place - below) * step) / Math.expm1(step);
    return heights[below]! * (1 - part) + heights[below + 1]! * part;
  };
  let before = -1;
  for (let i = 0; i <= cells; i++) {
    const x = Math.exp(i * width);
    const slope = i < cells ? (heightAt(i + 1) - heightAt(i)) / (x * Math.expm1(width)) : 0;
    const change = i ? slope - before : 1 - heightAt(0) + 2 * slope;
    const q = Math.max(0, change) - ROUNDED * before;
    mass[cells - i] = q;
    mass[cells + i] = x * q;
    before = slope;
  }
  return { first: -cells, mass, lost: heightAt(cells) };
}

/** The sum of two independent losses, without ends of less than the spare mass. */
function added(one: Losses, other: Losses, spare: number): Losses {
  const mass = new Float64Array(one.mass.length + other.mass.length - 1);
  for (let i = 0; i < one.mass.length; i++) {
    for (let j = 0; j < other.mass.length; j++) mass[i + j]! += one.mass[i]! * other.mass[j]!;
  }
  let [start, end] = [0, mass.length];
  let [low, high] = [0, 0];
  while (low + mass[start]! < spare) low += mass[start++]!;
  while (high + mass[end - 1]! < spare) high += mass[--end]!;
  mass[start]! += low;
  return { first: one.first + other.first + start, mass: mass.slice(start, end), lost: one.lost + other.lost + high };
}

/** Where δ is reached: between two losses it is what is lost, and P − e^ε Q of all larger ones. */
function epsilonOf({ first, mass, lost }: Losses, width: number, delta: number): number {
  const spare = delta * (1 - LOST) - lost;
  let [p, q] = [0, 0];
  for (let place = first + mass.length - 1; place > 0; place--) {
    p += mass[place - first]!;
    q += mass[place - first]! * Math.exp(-place * width);
    const epsilon = Math.log((p - spare) / q);
    if (epsilon > (place - 1) * width) return epsilon * (1 + 1e-9);
  }
  return 0;
}

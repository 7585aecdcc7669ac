/**
 * ε of a crowd, worked out on the device: an upper bound, rounded up.
 *
 * A mechanism with one message is seen here as a *law* of two answers x, x' (docs/theory/blanket.md):
 * everybody's reports contain the same blanket, and over it the two answers have densities (a, 1) on
 * a set of blanket mass q, (1, a) on another of mass q, and equal densities elsewhere, of total
 * 1 − (a + 1) q. Of n people, with E = e^ε,
 *
 *     δ(ε) ≤ (1/n) E[(Z₁ + … + Zₙ)₊],    Z = ρ_x − E ρ_x' under the blanket, else 0,
 *
 * (Balle, Bell, Gascón, Nissim, "The Privacy Blanket of the Shuffle Model", CRYPTO 2019). For any
 * ε₀-DP randomizer the law with a = e^ε₀, q = 1/(a + 1) is a bound (docs/theory/optimal-clones.md).
 *
 * With C ~ Bin(n, 2q) people in the two sets, d the sum of C fair signs, and R the sum of the equal
 * densities of the others, the sum of the Z is
 *
 *     α d − β ((a + 1) C/2 + R),    α = (a − 1)(E + 1)/2,    β = E − 1.
 *
 * It is convex in d and in R, so the mean grows if their laws are spread. How many of the others have
 * density a, and how many 1, is taken as independent, which spreads their sum (counts of a multinomial
 * are negatively associated: Shao, "A Comparison Theorem on Moment Inequalities Between Negatively
 * Associated and Independent Random Variables", J. Theor. Probab. 2000). Both laws are put on grids
 * with their means kept. C goes in steps of a few: d takes the largest C of a step, R the others of
 * that, and the middle term the smallest. What is cut off at the ends has a probability below e^−z
 * each, by Bernstein's inequality, and counts α at most. A page that has more room than a device brings
 * a finer law of R (`calculator/others.ts`).
 */

const STEPS = 2000; // C goes in steps of its mean over so many
const NODES = 600; // of d
const FEW = 100; // of R and of its parts: it tells little
export const LOST = 1e-5; // of δ: the ends, and what floating point may lose
export const MOST_PEOPLE = 1e9; // more of them are counted as so many: they could only help

/** What a mechanism tells of two answers. */
export interface Law {
  /** The larger density, e^ε₀. */
  readonly a: number;
  /** Blanket mass of each of the two sets where the answers differ. */
  readonly q: number;
  /** Blanket mass where both answers have density a. */
  readonly both?: number;
}

/** The law that covers every ε₀-DP randomizer with one message. */
export const anyLaw = (epsilon: number): Law => {
  const a = Math.exp(epsilon);
  return { a, q: 1 / (a + 1) };
};

/** A law of numbers: `mass[i]` at `first + i * step`. */
export interface Grid {
  first: number;
  step: number;
  mass: Float64Array;
}

/** Bin(n, p) without its ends, each below e^−z; the rest is scaled up to 1. */
export function binomial(n: number, p: number, z: number): Grid {
  if (p <= 0 || n <= 0) return { first: 0, step: 1, mass: new Float64Array([1]) };
  const reach = z / 3 + Math.sqrt((z * z) / 9 + 2 * z * n * p * (1 - p));
  const first = Math.max(0, Math.floor(n * p - reach));
  const last = Math.min(n, Math.ceil(n * p + reach));
  const mode = Math.min(last, Math.max(first, Math.floor((n + 1) * p)));
  const mass = new Float64Array(last - first + 1);
  const odds = p / (1 - p);
  let sum = (mass[mode - first] = 1);
  for (let x = mode, w = 1; x < last; x++) {
    sum += mass[x + 1 - first] = w *= ((n - x) / (x + 1)) * odds;
  }
  for (let x = mode, w = 1; x > first; x--) {
    sum += mass[x - 1 - first] = w *= x / (n - x + 1) / odds;
  }
  return { first, step: 1, mass: mass.map((w) => w / sum) };
}

/** One number plus `scale` times the other, on few places: what lies between two is shared out to
 *  both, so that the mean is kept. */
function joined(one: Grid, nodes: number, other = NONE, scale = 1): Grid {
  const length = one.step * (one.mass.length - 1) + scale * other.step * (other.mass.length - 1);
  const step = Math.max(1, length / nodes);
  const mass = new Float64Array(Math.floor(length / step) + 3);
  for (let i = 0; i < one.mass.length; i++) {
    for (let j = 0; j < other.mass.length; j++) {
      const w = one.mass[i]! * other.mass[j]!;
      const place = (i * one.step + scale * j * other.step) / step;
      const below = Math.floor(place);
      mass[below]! += w * (below + 1 - place);
      mass[below + 1]! += w * (place - below);
    }
  }
  return { first: one.first + scale * other.first, step, mass };
}

const NONE = binomial(0, 0, 0);

/** The law of R of so many others, or of fewer, in parts with their shares. C takes so many values (`counts`)
 *  in steps of `size`; from step to step there are fewer others. */
export type Others = (law: Law, others: number, z: number, size: number, counts: number) => readonly (readonly [number, Grid])[];

export const apart: Others = ({ a, q, both = 0 }, others, z) => {
  const some = (p: number) => joined(binomial(others, Math.min(1, p / (1 - 2 * q)), z), FEW);
  return [[1, joined(some(1 - (a + 1) * q - a * both), FEW, some(both), a)]];
};

/** δ(ε) of n people, but for what is cut off: it is 10⁻⁵ of this δ at most. */
export function curve(law: Law, n: number, delta: number, othersOf: Others, finer = 1): (epsilon: number) => number {
  const { a, q } = law;
  const people = Math.min(n, MOST_PEOPLE);
  const z = Math.log((3e6 * a * a) / delta);
  const whole = binomial(people, 2 * q, z);
  const size = Math.ceil((2 * q * people) / STEPS / finer);
  const steps: (readonly [p: number, least: number, most: number, signs: Grid, others: Grid])[] = [];
  for (let i = 0; i < whole.mass.length; i += size) {
    const part = whole.mass.subarray(i, i + size);
    const least = whole.first + i;
    const most = least + part.length - 1;
    const signs = joined(binomial(most, 0.5, z), NODES * finer);
    const p = part.reduce((sum, w) => sum + w, 0);
    for (const [share, others] of othersOf(law, people - most, z, size, whole.mass.length)) {
      steps.push([p * share, least, most, signs, others]);
    }
  }

  return (epsilon) => {
    const beta = Math.expm1(epsilon);
    const alpha = ((a - 1) * (beta + 2)) / 2;
    let sum = 0;
    for (const [p, least, most, signs, others] of steps) {
      // Both from their upper ends: the more the others tell, the further out d has to be.
      let i = signs.mass.length;
      let weight = 0;
      let moment = 0;
      let inner = 0;
      for (let j = others.mass.length - 1; j >= 0; j--) {
        const needed = beta * (((a + 1) * least) / 2 + others.first + j * others.step);
        for (; i > 0; i--) {
          const d = alpha * (2 * (signs.first + (i - 1) * signs.step) - most);
          if (d <= needed) break;
          weight += signs.mass[i - 1]!;
          moment += signs.mass[i - 1]! * d;
        }
        inner += others.mass[j]! * (moment - needed * weight);
      }
      sum += p * inner;
    }
    return sum / people;
  };
}

/** ε that n people give each other at δ, or ε₀ if the crowd adds nothing. */
export const crowdEpsilon = (law: Law, n: number, delta: number, others = apart, finer?: number): number =>
  solved(curve(law, n, delta, others, finer), law, delta);

/** An upper bound of the δ of n people at ε, tight near this δ: what is cut off is counted. */
export const crowdDelta = (law: Law, n: number, delta: number, epsilon: number, others: Others): number =>
  curve(law, n, delta, others)(epsilon) + LOST * delta;

/** Where a curve falls to δ, up to a share that is near enough; never less. */
export function solved(deltaAt: (epsilon: number) => number, { a }: Law, delta: number, near = 1e-6): number {
  const target = delta * (1 - LOST);
  let low = 0;
  let high = deltaAt(0) <= target ? 0 : Math.log(a);
  while (high - low > near * high) {
    const middle = (low + high) / 2;
    if (deltaAt(middle) <= target) high = middle;
    else low = middle;
  }
  return high * (1 + 1e-9);
}

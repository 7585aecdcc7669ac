/**
 * What the others tell, counted more finely than a device does it, for crowds that are small or whose
 * blanket is rarely used: there the calculator would be percents above the library, and a page has time.
 *
 * R = a B + M, of N people outside the two sets (`bound.ts`): B of them have density a, and given B, M of
 * the N − B others have density 1: M ~ Bin(N − B, r). Let f be convex and decreasing, as the mean that is
 * bounded is in R, and g(b) = E f(a b + Bin(N − b, r)). With W = a b + Bin(N − b − 2, r), independent
 * X, X' ~ Bern(r), and X, X' ≤ 1 ≤ a,
 *
 *     g(b + 2) − 2 g(b + 1) + g(b) = E[f(W + 2a) − f(W + a + X) − f(W + a + X') + f(W + X + X')] ≥ 0:
 *
 * the first and last place have the sum of the other two, and enclose them. So g is convex, and it falls,
 * as one person more with density a adds a and takes X ≤ a away. Hence the mean over B only grows if B is
 * put on a grid of whole numbers with its mean kept; a place beyond N counts as N. Where the laws have too
 * many places for that, M is taken as independent of B, as a device does.
 */

import { binomial, type Grid, type Law, type Others } from "../bound.js";

const PLACES_B = 100;
const PLACES_M = 300;
const WORK = 2e6; // of one evaluation, if the places of B are kept apart
const PLACES = 1e5; // of R over all steps, if they are not
const SMALL = 1000; // of M: what there is more, B tells nothing of
const BUNCH = 4; // steps that share the law of the fewest others among them
const SPARE = 3e-5; // of the others, who may be left out: that is as much of ε, as the others' part grows with β
const SIGNS = 600; // places of d, about

interface Part {
  readonly share: number;
  readonly at: number;
  readonly grid: Grid;
}

/** A law on few places, `step` times a whole number apart: what lies between two is shared out to both. */
function spread(parts: readonly Part[], nodes: number, least: number): Grid {
  const first = Math.min(...parts.map(({ at, grid }) => at + grid.first));
  const last = Math.max(...parts.map(({ at, grid }) => at + grid.first + grid.step * (grid.mass.length - 1)));
  const step = least * Math.max(1, Math.ceil((last - first) / nodes / least));
  const mass = new Float64Array(Math.floor((last - first) / step) + 3);
  for (const { share, at, grid } of parts) {
    for (let i = 0; i < grid.mass.length; i++) {
      const place = (at + grid.first + i * grid.step - first) / step;
      const below = Math.floor(place);
      const w = share * grid.mass[i]!;
      mass[below]! += w * (below + 1 - place);
      mass[below + 1]! += w * (place - below);
    }
  }
  return { first, step, mass };
}

/** The others of one law, asked for ever fewer of them. */
export function fineOthers(): Others {
  let known: { readonly people: number; readonly parts: readonly (readonly [number, Grid])[] } | undefined;
  return (law, others, z, size, counts) => {
    if (!known || known.people > others) {
      // Fewer of them leave R smaller, which is on the safe side.
      const people = Math.max(0, others - Math.max(BUNCH * (size - 1), Math.floor(SPARE * others)));
      known = { people, parts: partsOf(law, people, z, counts / size) };
    }
    return known.parts;
  };
}

function partsOf({ a, q, both = 0 }: Law, people: number, z: number, steps: number): (readonly [number, Grid])[] {
  const away = 1 - 2 * q;
  const neither = Math.max(0, 1 - (a + 1) * q - a * both);
  const some = (n: number, p: number, places: number) =>
    spread([{ share: 1, at: 0, grid: binomial(n, Math.min(1, p), z) }], places, 1);
  const shared = some(people, both / away, PLACES_B);
  const free = people * neither > SMALL * away ? some(people, neither / away, PLACES_M) : null;
  const parts: Part[] = [];
  let work = 0;
  shared.mass.forEach((share, i) => {
    const b = Math.min(people, shared.first + i * shared.step);
    if (share === 0) return;
    const grid = free ?? some(people - b, neither / (away - both), PLACES_M);
    parts.push({ share, at: a * b, grid });
    work += steps * (grid.mass.length + SIGNS);
  });
  if (work > WORK) return [[1, spread(parts, Math.max(PLACES_B, PLACES / steps), 1 / 64)]];
  return parts.map(({ share, at, grid }) => [share, { ...grid, first: at + grid.first }] as const);
}

/**
 * The published bounds that are proved and have a closed form, or nearly: the same numbers and the same
 * regimes as `shoal.accounting.catalog`, where each is cited and its proof followed
 * (docs/theory/published-bounds.md).
 */

import { crowdEpsilon, type Others } from "../bound.js";

export interface Query {
  readonly localEpsilon: number;
  readonly n: number;
  readonly delta: number;
  /** Answers, if the randomizer is k-ary randomized response. */
  readonly k?: number | undefined;
}

export interface Published {
  readonly name: string;
  readonly title: string;
  readonly citation: string;
  readonly arxiv?: string;
  /** What has to hold. */
  readonly needs: string;
  /** The theorem's number, which may be above ε₀; null outside its regime. */
  evaluate(query: Query): number | null;
}

/** Its ε, and never more than ε₀, which always holds; null outside its regime. */
export function publishedEpsilon(bound: Published, query: Query): number | null {
  const epsilon = bound.evaluate(query);
  return epsilon === null ? null : Math.min(epsilon, query.localEpsilon);
}

const logOver = ({ delta }: Query, numerator: number): number => Math.log(numerator) - Math.log(delta);

/** Lemmas A.1 and 2.3 of FMT21, for clones that are this fraction of the crowd. */
function ofClones(query: Query, weight: number, fraction: number): number | null {
  const clones = fraction * query.n;
  if (!(clones >= 16 * logOver(query, 2))) return null;
  return Math.log1p(weight * (8 * Math.sqrt(logOver(query, 4) / clones) + 8 / clones));
}

const FMT21 = "Feldman, McMillan, Talwar, FOCS 2021";
const BBGN19 = "Balle, Bell, Gascón, Nissim, CRYPTO 2019";
const CROWD = "ε₀ ≤ log(n / (16 log(2/δ)))";

const fmt22: Published = {
  name: "fmt22-closed",
  title: "Stronger clones, closed form",
  citation: "Feldman, McMillan, Talwar, SODA 2023",
  arxiv: "2208.04591",
  needs: "ε₀ ≤ log(n / (8 log(2/δ)) − 1)",
  evaluate(query) {
    const inverse = Math.exp(-query.localEpsilon);
    return ofClones(query, Math.tanh(query.localEpsilon / 2), (2 * inverse) / (1 + inverse));
  },
};

const fmt21: Published = {
  name: "fmt21-closed",
  title: "Clones, closed form",
  citation: `${FMT21}, Theorem 3.1`,
  arxiv: "2012.12803",
  needs: CROWD,
  evaluate: (query) => ofClones(query, Math.tanh(query.localEpsilon / 2), Math.exp(-query.localEpsilon)),
};

const workshop: Published = {
  ...fmt21,
  name: "fmt21-workshop",
  title: "Clones, workshop version",
  citation: "workshop version of the FOCS 2021 paper, Theorem 2.1",
  evaluate: (query) => ofClones(query, -Math.expm1(-2 * query.localEpsilon), Math.exp(-query.localEpsilon)),
};

const thm41: Published = {
  ...fmt21,
  name: "fmt21-thm41",
  title: "Clones, finer decomposition",
  citation: `${FMT21}, Theorem 4.1`,
  needs: "n e^−ε₀/3 ≥ 8 log(2/δ)",
  evaluate: (query) => ofClones(query, Math.tanh(query.localEpsilon / 2), 2 * (Math.exp(-query.localEpsilon) / 3)),
};

const oneTerm: Published = {
  name: "fmt21-blog",
  title: "Clones, one-term form",
  citation: "Canonne, DifferentialPrivacy.org 2022, equation (1)",
  needs: "n ≥ 16 e^ε₀ log(2/δ)",
  evaluate(query) {
    const clones = Math.exp(-query.localEpsilon) * query.n;
    if (!(clones >= 16 * logOver(query, 2))) return null;
    return Math.log1p(16 * Math.tanh(query.localEpsilon / 2) * Math.sqrt(logOver(query, 4) / clones));
  },
};

const krr: Published = {
  ...fmt21,
  name: "krr-closed",
  title: "Clones of randomized response, closed form",
  citation: `${FMT21}, Corollary 4.2`,
  needs: "k-ary randomized response, n ≥ 8 log(2/δ) (k + 1)(e^ε₀ + k − 1)/k",
  evaluate(query) {
    const { k, localEpsilon } = query;
    if (k === undefined) return null;
    const inverse = Math.exp(-localEpsilon);
    const scale = 1 + (k - 1) * inverse;
    return ofClones(query, -Math.expm1(-localEpsilon) / scale, (2 * k * inverse) / ((k + 1) * scale));
  },
};

const small: Published = {
  name: "efmrtt19",
  title: "Amplification by shuffling, small ε₀",
  citation: "Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta, SODA 2019",
  arxiv: "1811.12469",
  needs: "ε₀ ≤ 1/2, n ≥ 1000 and δ < 1/100",
  evaluate(query) {
    const { localEpsilon, n, delta } = query;
    if (!(localEpsilon <= 0.5 && n >= 1000 && delta < 0.01)) return null;
    return 12 * localEpsilon * Math.sqrt(logOver(query, 1) / n);
  },
};

// BBGN19: the blanket lemma with two tail inequalities (`catalog/bbgn19.py` has the proofs).

/** A blanket fraction, what it lacks of 1, and at ε: L ≤ ceiling, the width of L, E[L²] ≤ squares. */
interface Blanket {
  readonly gamma: number;
  readonly rest: number;
  loss(epsilon: number): { ceiling: number; width: number; squares: number };
}

function blanketOf({ localEpsilon, k }: Query): Blanket {
  const e = Math.exp(localEpsilon);
  if (k === undefined) {
    return {
      gamma: 1 / e,
      rest: -Math.expm1(-localEpsilon),
      loss(epsilon) {
        const x = Math.exp(epsilon);
        return {
          ceiling: (x / e) * Math.expm1(2 * localEpsilon - epsilon),
          width: (x + 1) * 2 * Math.sinh(localEpsilon),
          squares: e * Math.expm1(epsilon) ** 2 + (2 * x * Math.expm1(4 * localEpsilon)) / e ** 3,
        };
      },
    };
  }
  const scale = e + k - 1;
  const gamma = k / scale;
  return {
    gamma,
    rest: Math.expm1(localEpsilon) / scale,
    loss(epsilon) {
      const up = Math.exp(epsilon) * Math.expm1(localEpsilon - epsilon);
      const down = Math.expm1(localEpsilon + epsilon);
      const squares = up * up + down * down + (k - 2) * Math.expm1(epsilon) ** 2;
      return { ceiling: gamma * up, width: gamma * (up + down), squares: (gamma ** 2 * squares) / k };
    },
  };
}

/** log E e^(−exponent B) of B ~ Bern(γ). */
function logTransform({ gamma, rest }: Blanket, exponent: number): number {
  const missing = -gamma * Math.expm1(-exponent);
  return missing < 0.5 ? Math.log1p(-missing) : Math.log(rest + gamma * Math.exp(-exponent));
}

function hoeffdingLogDelta(epsilon: number, blanket: Blanket, n: number): number {
  const a = Math.expm1(epsilon);
  const { width } = blanket.loss(epsilon);
  const front = 2 * Math.log(width) - Math.log(4 * a * blanket.gamma * n);
  return front + n * logTransform(blanket, 2 * (a / width) ** 2);
}

/** (1 + u) log(1 + u) − u; the series stays below it. */
const phi = (u: number): number =>
  u < 1e-3 ? u * u * (1 / 2 - u * (1 / 6 - u * (1 / 12 - u / 20))) : (1 + u) * Math.log1p(u) - u;

function bennettLogDelta(epsilon: number, blanket: Blanket, n: number): number {
  const { ceiling: b, squares: c } = blanket.loss(epsilon);
  const u = (Math.expm1(epsilon) * b) / c;
  const s = (c / b ** 2) * phi(u);
  const front = Math.log(b) - Math.log(Math.log1p(u)) - Math.log(blanket.gamma * n);
  const logOdds = Math.log(blanket.gamma) - Math.log(blanket.rest) - s;
  let someone = Math.log(n) + logOdds;
  if (someone >= -25) someone = Math.log(-Math.expm1(-n * Math.log1p(Math.exp(logOdds))));
  return front + n * logTransform(blanket, s) + someone;
}

const DECADES = 15;
const POINTS = 400;
const LAST = 1 - 1e-6; // of ε₀
const HALVINGS = 45;
const LOG_MARGIN = 1e-9; // more than the rounding of a curve

/** The first ε below ε₀ at which a curve has come down to δ. */
function firstBelow(logDelta: (epsilon: number, blanket: Blanket, n: number) => number, query: Query): number | null {
  const blanket = blanketOf(query);
  const target = Math.log(query.delta) - LOG_MARGIN;
  const reached = (epsilon: number) => logDelta(epsilon, blanket, query.n) <= target;
  let below = 0;
  for (let i = 0; i <= POINTS; i++) {
    let epsilon = LAST * 10 ** (-DECADES * (1 - i / POINTS)) * query.localEpsilon;
    if (reached(epsilon)) {
      for (let j = 0; below && j < HALVINGS; j++) {
        const middle = (below + epsilon) / 2;
        if (reached(middle)) epsilon = middle;
        else below = middle;
      }
      return epsilon;
    }
    below = epsilon;
  }
  return null;
}

const hoeffding: Published = {
  name: "bbgn19-hoeffding",
  title: "Privacy blanket, Hoeffding",
  citation: BBGN19,
  arxiv: "1903.02837",
  needs: "an ε below ε₀ where its δ(ε) ≤ δ",
  evaluate: (query) => firstBelow(hoeffdingLogDelta, query),
};

const bennett: Published = {
  ...hoeffding,
  name: "bbgn19-bennett",
  title: "Privacy blanket, Bennett",
  evaluate: (query) => firstBelow(bennettLogDelta, query),
};

const nothing: Others = () => [[1, { first: 0, step: 1, mass: new Float64Array([1]) }]];

/** FMT21, Theorem 3.2: a blanket e^−ε₀ (R₀ + R₁)/2 of two halves, with densities 2a/(a + 1) times (a, 1). */
const clones: Published = {
  ...fmt21,
  name: "clones",
  title: "Clones, numerical",
  citation: `${FMT21}, Theorem 3.2`,
  needs: "",
  evaluate({ localEpsilon, n, delta }) {
    const a = Math.exp(localEpsilon);
    return crowdEpsilon({ a, q: 0.5 / a }, n, (delta * (a + 1)) / (2 * a), nothing);
  },
};

/** Every one of them, whether it applies or not. */
export const PUBLISHED: readonly Published[] = [clones, fmt22, fmt21, workshop, thm41, oneTerm, krr, bennett, hoeffding, small];

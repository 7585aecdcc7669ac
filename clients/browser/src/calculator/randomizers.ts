/**
 * The one-message randomizers of one of k answers, as `shoal.mechanisms` has them: their laws, how wrong
 * their estimates are, and how long a message is. Odds are e^ε₀ : 1 here; a device draws by whole numbers,
 * which are never above that.
 */

import { anyLaw, type Law } from "../bound.js";
import { homeOf } from "../mechanisms.js";

/** A randomizer at one ε₀, of one of k answers. */
export interface Randomizer {
  readonly laws: readonly Law[];
  /** Variance of one estimated count of one person: summed over all answers, which are as frequent... */
  readonly total: number;
  /** ...and of an answer that nobody gave, while all others gave one. */
  readonly empty: number;
  /** Information in a message. */
  readonly bits: number;
  /** What its sets of outputs go by, where they depend on ε₀. */
  readonly shape?: string;
}

export type Family = (epsilon: number, k: number) => Randomizer;

/** Messages that support the true answer with probability p and any other with q < p. */
function supported(p: number, q: number, k: number): { total: number; empty: number } {
  const spread = (p - q) ** 2;
  return {
    total: (p * (1 - p) + (k - 1) * q * (1 - q)) / spread,
    empty: (q * (1 - q)) / spread,
  };
}

const grr: Family = (epsilon, k) => {
  const a = Math.exp(epsilon);
  const z = a + k - 1;
  return { laws: [{ a, q: 1 / z }], ...supported(a / z, 1 / z, k), bits: Math.log2(k) };
};

const bitLength = (value: number): number => value.toString(2).length;

/** Blocks and their width: the least bound on the total variance, then the fewest outputs. */
function layout(a: number, k: number): { blocks: number; size: number } {
  let best = { blocks: 0, size: 0 };
  let least = [Infinity, Infinity] as const;
  for (let i = 1; i <= bitLength(k); i++) {
    const size = 2 ** i;
    const blocks = Math.ceil(k / (size - 1));
    const cost = [(a + 2 * blocks - 1) * (2 * k + Math.ceil(k / blocks) * (a - 1)), blocks * size] as const;
    if (cost[0] < least[0] || (cost[0] === least[0] && cost[1] < least[1])) [best, least] = [{ blocks, size }, cost];
  }
  return best;
}

const hadamard: Family = (epsilon, k) => {
  const a = Math.exp(epsilon);
  const { blocks, size } = layout(a, k);
  const z = a + 2 * blocks - 1;
  const laws: Law[] = [];
  // A single block has an output that suits every answer.
  if (k > blocks) laws.push({ a, q: 0.5 / z, both: 0.5 / z - (blocks === 1 ? 2 / (size * z) : 0) });
  if (blocks > 1) laws.push({ a, q: 1 / z });
  const scale = z / (a - 1);
  const least = (2 * scale) / (a - 1);
  const fewer = Math.floor(k / blocks); // answers in a block; in some there is one more
  const more = k - fewer * blocks;
  const together = (more * (fewer + 1) ** 2 + (blocks - more) * fewer ** 2) / k;
  return {
    laws,
    total: k * least + scale * together - 1,
    get empty() {
      const shared = homeOf(0, k, size) % blocks === homeOf(k - 1, k, size) % blocks;
      return least + (shared ? scale : 0);
    },
    bits: Math.log2(blocks * size),
    shape: `${blocks} ${size}`,
  };
};

const LARGEST_SPACE = 2e7;
const isPrime = (value: number): boolean => {
  for (let d = 2; d * d <= value; d++) if (value % d === 0) return false;
  return value > 1;
};

/** Points of a projective space over F_q of so many dimensions. */
const points = (q: number, t: number): number => (t > 0 ? (q ** t - 1) / (q - 1) : 0);

/** Each prime with the least dimension that has k points; of the plane, the least prime. */
function spaces(k: number): [q: number, t: number][] {
  let plane = Math.max(k - 1, 2);
  while (!isPrime(plane)) plane++;
  const found: [number, number][] = [[plane, 2]];
  for (let q = 2; q < Math.min(k - 1, Math.ceil(LARGEST_SPACE ** (1 / 3))); q++) {
    if (!isPrime(q)) continue;
    let t = 3;
    while (points(q, t) < k) t++;
    if (q ** t <= LARGEST_SPACE) found.push([q, t]);
  }
  return found;
}

const projective: Family = (epsilon, k) => {
  const a = Math.exp(epsilon);
  let best: (Randomizer & { total: number }) | undefined;
  let least = Infinity;
  for (const [q, t] of spaces(k)) {
    const [size, inside, shared] = [points(q, t), points(q, t - 1), points(q, t - 2)];
    const total = a * inside + size - inside;
    const errors = supported((a * inside) / total, (a * shared + inside - shared) / total, k);
    if (errors.total >= least) continue;
    least = errors.total;
    best = { laws: [{ a, q: (inside - shared) / total, both: shared / total }], ...errors, bits: Math.log2(size), shape: `${q} ${t}` };
  }
  return best!;
};

/** log C(n, r), by Stirling's series once n is large. */
function logChoose(n: number, r: number): number {
  const logFactorial = (m: number): number => {
    if (m < 20) {
      let product = 1;
      for (let i = 2; i <= m; i++) product *= i;
      return Math.log(product);
    }
    return m * Math.log(m) - m + Math.log(2 * Math.PI * m) / 2 + 1 / (12 * m) - 1 / (360 * m ** 3);
  };
  return logFactorial(n) - logFactorial(r) - logFactorial(n - r);
}

const subset: Family = (epsilon, k) => {
  const a = Math.exp(epsilon);
  const size = Math.max(1, Math.round(k / (a + 1)));
  const raised = size * a;
  const total = raised + k - size;
  const unit = 1 / ((k - 1) * total);
  const other = (raised * (size - 1) + (k - size) * size) * unit;
  return {
    laws: [{ a, q: unit * size * (k - size), both: unit * size * (size - 1) }],
    ...supported(raised / total, other, k),
    bits: logChoose(k, size) / Math.LN2,
    shape: `${size}`,
  };
};

const COINS = 2 ** 32; // coins of a row of bits are whole numbers over this

const unary: Family = (epsilon, k) => {
  const rare = Math.ceil(COINS / (Math.exp(epsilon) + 1)) / COINS;
  const a = (1 - rare) / rare;
  // The row of all bits suits every answer.
  const both = (rare ** 2 - rare ** k) / (2 * (1 - rare));
  return { laws: [{ a, q: rare / 2, both }], ...supported(0.5, rare, k), bits: k };
};

/** Local hashing into so many buckets; without their number, as many as are best for rare answers. */
export const hashing =
  (buckets?: number): Family =>
  (epsilon, k) => {
    const a = Math.exp(epsilon);
    const g = buckets ?? Math.round(a) + 1;
    const z = a + g - 1;
    return {
      laws: [{ a, q: (1 - 1 / g) / z, both: 1 / (g * z) }],
      ...supported(a / z, (a + g - 1) / (g * z), k),
      bits: 122 + Math.log2(g),
    };
  };

/** Any ε₀-DP randomizer has no error of its own. */
export const anyRandomizer = (epsilon: number): Pick<Randomizer, "laws"> => ({ laws: [anyLaw(epsilon)] });

export const FAMILIES: ReadonlyMap<string, Family> = new Map([
  ["grr", grr],
  ["hadamard", hadamard],
  ["projective", projective],
  ["subset", subset],
  ["unary", unary],
  ["hashing", hashing()],
]);

/**
 * The mechanisms that fewer surveys use: rows of bits, sets, hashes, numbers, and several messages,
 * which only a person who lifts the limit of ε₀ may send. They are loaded when one is needed, as is what composes
 * several rounds, what looks at texts in other letters than ASCII, and what reads early surveys.
 */

import { anyLaw, binomial, type Law } from "./bound.js";
import { hex, joined } from "./bytes.js";
import { has, type Fields } from "./canonical.js";
import { bigEndian, bits, local, must, numbered, odds, response, whole, width, type Known, type Made, type Maker } from "./devices.js";
import { coin, pick, type Below } from "./random.js";

export { composedEpsilon } from "./composition.js";
export { honestOf, present } from "./older.js";
export { hiddenField } from "./texts.js";

const UNIT = 2 ** 52;
const TOTAL = 1n << 62n;
const PRIME = (1n << 61n) - 1n;
const EXACT = 1e-9; // of a chance, between two computations

// One message.

/** Points of the projective space of F_q^t, as `shoal.mechanisms.response.Space` numbers them. */
const projective: Maker = ({ epsilon: stated }, sampler, k) => {
  must(has(sampler, "high low q t total"));
  const [q, t] = [whole(sampler.q, 2), whole(sampler.t, 2)];
  must(q < 1 << 26 && t < 64);
  for (let d = 2; d * d <= q; d++) must(q % d);
  const starts = [0]; // of the points whose first digit is at a place, and how many there are below
  const powers = [1];
  for (let i = 0; i < t; i++) {
    starts.push(starts[i]! + powers[i]!);
    powers.push(powers[i]! * q);
  }
  must(Number.isSafeInteger(powers[t]));
  const size = starts[t]!;
  const inside = starts[t - 1]!;
  const shared = starts[t - 2]!;
  must(size >= k);
  const { high, low, total, epsilon, a, each } = odds(sampler, stated, inside, size - inside);
  const placeOf = (point: number): number => {
    let place = t - 1;
    while (starts[place]! > point) place--;
    return place;
  };
  const digit = (vector: number, place: number) => Math.floor(vector / powers[place]!) % q;
  /** The point of a vector: divide by its first digit. */
  const numberOf = (vector: number): number => {
    let place = t - 1;
    while (!digit(vector, place)) place--;
    let factor = 1;
    while ((digit(vector, place) * factor) % q !== 1) factor++;
    let point = starts[place]!;
    for (let i = 0; i < place; i++) point += ((digit(vector, i) * factor) % q) * powers[i]!;
    return point;
  };
  return {
    epsilon,
    laws: [{ a, q: (inside - shared) * each, both: shared * each }],
    ...numbered(size, (truth, below) => {
      const drawn = pick(below, total);
      const edge = inside * high;
      const far = drawn >= edge;
      const member = far ? Math.floor((drawn - edge) / low) : Math.floor(drawn / high);
      const near = placeOf(member);
      const rest = far ? member : member - starts[near]! + powers[near]!;
      // Whatever the other coordinates are, one at the place of the truth's first digit makes the
      // product with it 0, and one makes it 1.
      const place = placeOf(truth);
      const lower = truth - starts[place]!;
      let product = 0;
      for (let i = 0; i < place; i++) product = (product + digit(lower, i) * digit(rest, i)) % q;
      const lead = (Number(far) - product + q) % q;
      const power = powers[place]!;
      const upper = Math.floor(rest / power);
      return numberOf((upper * q + lead) * power + rest - upper * power);
    }),
  };
};

const unary: Maker = ({ epsilon: stated, symmetric }, sampler, k) => {
  must(has(sampler, "bits false true") && sampler.bits === 32);
  const [yes, no] = [whole(sampler.true), whole(sampler.false)];
  const scale = 2 ** 32;
  must(no < yes && yes === (symmetric ? scale - no : scale / 2));
  const [p, q] = [yes / scale, no / scale];
  const epsilon = local(p - q, (1 - p) * q, stated); // p (1 − q) has p − q more than (1 − p) q
  const a = Math.exp(epsilon);
  return {
    epsilon,
    laws: [{ a, q: q * (1 - p), both: (q * q * (1 - p)) / (1 - q) }],
    loose: true,
    messageBytes: Math.ceil(k / 8),
    draw: (truth, below) => bits(k, (i) => coin(below, i === truth ? yes : no, 32)),
  };
};

const subset: Maker = ({ epsilon: stated, size: asked }, sampler, k) => {
  must(has(sampler, "size total with"));
  const [size, truly, total] = [whole(sampler.size), whole(sampler.with), whole(sampler.total)];
  must(size < k && (asked === null || asked === size));
  const [high, low] = [truly / size, (total - truly) / (k - size)];
  const { epsilon, a, each } = odds({ high, low, total }, stated, size, k - size);
  const unit = each / (k - 1);
  return {
    epsilon,
    laws: [{ a, q: unit * size * (k - size), both: unit * size * (size - 1) }],
    messageBytes: Math.ceil(k / 8),
    draw(truth, below) {
      const chosen = new Set(pick(below, total) < truly ? [truth] : []);
      // No other answer is treated otherwise than another, so every set of them is as likely.
      while (chosen.size < size) {
        const other = pick(below, k - 1);
        chosen.add(other + Number(other >= truth));
      }
      return bits(k, (i) => chosen.has(i));
    },
  };
};

/** A hash function of its own, and the bucket that is told: u, v and the bucket, each big-endian. */
const hashing: Maker = ({ epsilon, buckets: asked }, sampler) => {
  must(has(sampler, "buckets high low total"));
  const buckets = whole(sampler.buckets, 2);
  must(asked === null || asked === buckets);
  const made = response(sampler, epsilon, buckets);
  const [{ a, q }] = made.laws as [Law];
  const size = width(buckets);
  return {
    epsilon: made.epsilon,
    laws: [{ a, q: q * (1 - 1 / buckets), both: q / buckets }],
    messageBytes: 16 + size,
    draw(truth, below) {
      const u = below(PRIME - 1n) + 1n;
      const v = below(PRIME);
      const bucket = Number(((u * BigInt(truth) + v) % PRIME) % BigInt(buckets));
      return joined(bigEndian(u, 8), bigEndian(v, 8), bigEndian(made.draw(bucket, below), size));
    },
  };
};

/** A number, rounded at random to one of the levels, then a window of likelier outputs. */
const windows =
  (levelsOf: (parameters: Fields) => unknown): Maker =>
  (parameters, sampler) => {
    must(has(sampler, "high low outputs total width"));
    const levels = whole(levelsOf(parameters), 2);
    const [size, outputs] = [whole(sampler.width), whole(sampler.outputs)];
    must(size <= levels - 1 && outputs === levels - 1 + size);
    const { high, low, total, epsilon, a, each } = odds(sampler, parameters.epsilon, size, outputs - size);
    const [least, most] = [parameters.low, parameters.high] as [number, number];
    must(Number.isFinite(least) && Number.isFinite(most) && most > least && most - least < Infinity);
    const excess = high - low;
    return {
      epsilon,
      laws: [{ a, q: size * each }],
      loose: true,
      range: [least, most] as const,
      ...numbered(outputs, (value, below) => {
        const place = ((value - least) / (most - least)) * (levels - 1);
        const floor = Math.min(Math.floor(place), levels - 2);
        const level = floor + Number(coin(below, Math.floor((place - floor) * 2 ** 53), 53));
        const drawn = pick(below, total);
        const favour = size * excess;
        return drawn < favour ? level + Math.floor(drawn / excess) : Math.floor((drawn - favour) / low);
      }),
    };
  };

// Several messages.

/** Messages that are whole numbers below `outputs`; unused slots hold `outputs` itself. */
const envelopes = (
  outputs: number,
  slots: number,
  draw: (value: number, below: Below) => number[],
): Made => {
  const messageBytes = width(outputs + 1);
  return {
    messageBytes,
    slots,
    epsilon: Infinity,
    draw(value, below) {
      const sent = draw(value, below);
      return joined(
        ...Array.from({ length: slots }, (_, i) => bigEndian(sent[i] ?? outputs, messageBytes)),
      );
    },
  };
};

const dummies: Maker = (parameters, sampler, k) => {
  must(has(sampler, "always bits sometimes"));
  const [always, sometimes] = [whole(sampler.always, 0), whole(sampler.sometimes, 0)];
  must(sampler.bits === 52 && sometimes < UNIT && always + sometimes > 0 && always + sometimes / UNIT === parameters.dummies);
  return envelopes(k, 1 + always + Number(sometimes > 0), (truth, below) => {
    const more = sometimes > 0 && coin(below, sometimes, 52);
    return [truth, ...Array.from({ length: always + Number(more) }, () => pick(below, k))];
  });
};

/** A chance of 2⁵², as a sampler and a parameter both say it. */
const chance = (share: unknown, sampler: Fields, stated: unknown): number => {
  const found = whole(share);
  must(sampler.bits === 52 && found / UNIT === stated && found <= UNIT);
  return found;
};

const zeroSum: Maker = ({ gamma }, sampler, k) => {
  must(has(sampler, "bits gamma"));
  const withheld = chance(sampler.gamma, sampler, gamma);
  return envelopes(k, k + 1, (truth, below) => {
    const sent: number[] = [];
    for (let i = 0; i < k; i++) {
      if (!coin(below, withheld, 52)) sent.push(i);
      if (i === truth) sent.push(i);
    }
    return sent;
  });
};

const zeroSumCount: Maker = ({ gamma }, sampler) => {
  must(has(sampler, "bits gamma"));
  const withheld = chance(sampler.gamma, sampler, gamma);
  return envelopes(1, 2, (truth, below) =>
    new Array<number>(truth + Number(!coin(below, withheld, 52))).fill(0),
  );
};

const coins: Maker = (parameters, sampler) => {
  must(has(sampler, "bits coins"));
  const replaced = chance(sampler.coins, sampler, parameters.coins);
  const lie = replaced / UNIT / 2;
  const epsilon = Math.log((1 - lie) / lie) * (1 + 1e-14) + 1e-14;
  return {
    ...envelopes(2, 1, (truth, below) => [coin(below, replaced, 52) ? pick(below, 2) : truth]),
    epsilon,
    laws: [anyLaw(epsilon)],
    loose: true,
  };
};

/** Weights of the counts up to 0, 1, …, of 2⁶²; null of a table that is only named by its hash. */
const stepsOf = (told: unknown): bigint[] | null => {
  if (/^sha256:[0-9a-f]{64}$/.test(told as string)) return null;
  must(Array.isArray(told));
  return told.map((step) => {
    must(typeof step === "string" && /^\d{1,19}$/.test(step));
    return BigInt(step);
  });
};

/** That a table is of this law. */
const follows = (steps: bigint[], law: (count: number) => number): void => {
  let sum = 0;
  steps.forEach((step, i) => {
    sum += law(i);
    must(Math.abs(Number(step) / Number(TOTAL) - sum) < EXACT);
  });
  must(steps.at(-1) === TOTAL);
};

const count = (steps: bigint[], below: Below): number => {
  const drawn = below(TOTAL);
  return steps.filter((step) => step <= drawn).length;
};

/** The truth, and of each answer one more copy now and then: how many, and then which. What is cut off
 *  falls on the likeliest number; a table that is only named by its hash is not known here. */
const sparse: Maker = ({ gamma, most: stated }, sampler, k) => {
  must(has(sampler, "bits copies_steps gamma"));
  const chosen = chance(sampler.gamma, sampler, gamma);
  const steps = stepsOf(sampler.copies_steps);
  if (!steps) return null;
  const most = steps.indexOf(TOTAL);
  const likeliest = Number((BigInt(k + 1) * BigInt(chosen)) >> 52n);
  const limit = Math.min(k, stated === null ? k : whole(stated));
  must(most >= likeliest && most <= limit && most === steps.length - 1);
  const law = binomial(k, chosen / UNIT, 50);
  const shares = steps.map((_, i) => law.mass[i - law.first] ?? 0);
  const cut = 1 - shares.reduce((sum, share) => sum + share, 0);
  must(most === limit || cut < EXACT); // else it cuts off more than it says
  follows(steps, (i) => shares[i]! + (i === likeliest ? cut : 0));
  return envelopes(k, 1 + most, (truth, below) => {
    const copies = count(steps, below);
    const others = new Set<number>();
    while (others.size < copies) others.add(pick(below, k));
    return [truth, ...others];
  });
};

const poisson = (mean: number) => {
  let term = Math.exp(-mean);
  return (count: number) => (count ? (term *= mean / count) : term);
};

/** The truth and pairs; some people carry noise, too, and send all slots. Messages with + come first, then
 *  those with −, then the one that says nothing. */
const carriers: Maker = (parameters, sampler, k) => {
  must(has(sampler, "bits carriers clump_steps clumps_steps pairs_steps"));
  const carrier = chance(sampler.carriers, sampler, parameters.carriers);
  const [people, fewest, most] = [whole(parameters.people), whole(parameters.fewest), whole(parameters.most, 3)];
  const { central_epsilon: rate, pairs: mean } = parameters as Record<string, number>;
  must(rate! > 0 && rate! <= 300 && mean! > 0 && mean! < Infinity && fewest <= people);
  const [pairs, clumps, clump] = [stepsOf(sampler.pairs_steps), stepsOf(sampler.clumps_steps), stepsOf(sampler.clump_steps)];
  if (!pairs || !clumps || !clump) return null;
  const clumpiness = -Math.log(-Math.expm1(-rate!));
  follows(pairs, poisson((k * mean!) / people));
  follows(clumps, poisson((2 * k * clumpiness) / fewest));
  follows(clump, (more) => Math.exp(-rate! * (more + 1)) / (more + 1) / clumpiness);
  const made = envelopes(2 * k + 1, most, (truth, below) => {
    const carries = coin(below, carrier, 52);
    const sent = [truth];
    for (let left = count(pairs, below); left > 0; left--) {
      const answer = pick(below, k);
      sent.push(answer, k + answer);
    }
    if (carries) {
      for (let left = count(clumps, below); left > 0; left--) {
        const kind = pick(below, 2 * k);
        sent.push(...new Array<number>(1 + count(clump, below)).fill(kind));
      }
      while (sent.length < most) sent.push(2 * k);
    }
    return sent.slice(0, most);
  });
  return { ...made, absent: hex(bigEndian(2 * k + 1, made.messageBytes)) };
};

export const MORE: Known = new Map([
  ["projective", [projective, "epsilon k name", 0]],
  ["unary", [unary, "epsilon k name symmetric", 0]],
  ["subset", [subset, "epsilon k name size", 0]],
  ["hashing", [hashing, "buckets epsilon k name", 0]],
  ["duchi", [windows(() => 2), "epsilon high low name", -1]],
  ["piecewise", [windows(({ levels }) => levels), "epsilon high levels low name", -1]],
  ["rounded", [windows(({ levels }) => levels), "epsilon high levels low name", -1]],
  ["dummies", [dummies, "dummies k name", 0]],
  ["zero-sum", [zeroSum, "gamma k name", 0]],
  ["sparse", [sparse, "gamma k most name", 0]],
  ["near-central-carriers", [carriers, "carriers central_epsilon fewest k most name pairs people", 0]],
  ["zero-sum-count", [zeroSumCount, "gamma name", 2]],
  ["coins", [coins, "coins name", 2]],
]);

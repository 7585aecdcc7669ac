// ε that a device works out by itself: never too small, and hardly larger than Python's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inside, ShoalError, utf8, vectors } from "./kit.mjs";

const { bound, composition, policy, survey: surveys } = inside;

/** δ at ε of the shuffled reports of one of two answers among these, by listing all outcomes. */
function exactDelta(table, [x, y], others, epsilon) {
  const counted = (rows) => {
    let law = new Map([["0".repeat(table[0].length), 1]]);
    for (const row of rows) {
      const next = new Map();
      for (const [counts, p] of law) {
        row.forEach((q, i) => {
          const key = counts.slice(0, i) + String.fromCharCode(counts.charCodeAt(i) + 1) + counts.slice(i + 1);
          next.set(key, (next.get(key) ?? 0) + p * q);
        });
      }
      law = next;
    }
    return law;
  };
  const [first, second] = [x, y].map((answer) => counted([table[answer], ...others.map((other) => table[other])]));
  let sum = 0;
  for (const [counts, p] of first) sum += Math.max(0, p - Math.exp(epsilon) * (second.get(counts) ?? 0));
  return sum;
}

const response = (k, a) =>
  Array.from({ length: k }, (_, x) => Array.from({ length: k }, (_, y) => (x === y ? a : 1) / (a + k - 1)));

test("small crowds: at least the exact value, whatever the others hold", () => {
  for (const [k, a] of [[2, 3], [3, 2], [4, 5], [5, 12]]) {
    const table = response(k, a);
    for (const n of [1, 2, 3, 5]) {
      for (const delta of [0.05, 1e-3]) {
        const found = bound.crowdEpsilon({ a, q: 1 / (a + k - 1) }, n, delta);
        const generic = bound.crowdEpsilon(bound.anyLaw(Math.log(a)), n, delta);
        assert.ok(found <= generic * (1 + 1e-6));
        for (let held = 0; held < Math.min(k, 4); held++) {
          for (let last = held; last < Math.min(k, 4); last++) {
            const others = [...Array(n - 1).keys()].map((i) => (i % 2 ? last : held));
            assert.ok(exactDelta(table, [0, 1], others, found) <= delta * (1 + 1e-9), `${[k, a, n, delta, held]}`);
          }
        }
        assert.ok(found <= Math.log(a) * (1 + 1e-6));
      }
    }
  }
});

test("messages that suit both answers: at least the exact value", () => {
  // Three answers of a Hadamard response with one block of four outputs.
  const a = 4;
  const sets = [[0, 2], [0, 1], [0, 3]];
  const table = sets.map((set) => [0, 1, 2, 3].map((y) => (set.includes(y) ? a : 1) / (2 * a + 2)));
  const q = 1 / (2 * a + 2);
  for (const n of [2, 4, 6]) {
    const found = bound.crowdEpsilon({ a, q, both: q }, n, 1e-2);
    for (const other of [0, 1, 2]) {
      assert.ok(exactDelta(table, [0, 1], Array(n - 1).fill(other), found) <= 1e-2 * (1 + 1e-9));
    }
  }
});

test("more people never hurt, less delta never helps", () => {
  const law = { a: 5, q: 0.1, both: 0.02 };
  let last = Infinity;
  for (const n of [1, 10, 100, 1000, 10_000, 1e6, 1e9, 1e10]) {
    const found = bound.crowdEpsilon(law, n, 1e-6);
    assert.ok(found <= last * (1 + 1e-3), `${n}`);
    last = found;
  }
  assert.ok(last > 0 && last < 1e-3);
  assert.ok(bound.crowdEpsilon(law, 1000, 1e-9) > bound.crowdEpsilon(law, 1000, 1e-6));
});

test("what is promised is proved, or it is said that it is not", async () => {
  const text = vectors("reports").cases[0].survey;
  const read = (change) => surveys.readSurvey(inside.canonical.written({ ...JSON.parse(text), ...change }));
  const cost = async (change, limits = {}) => policy.costOf(await read(change), { ...policy.DEFAULTS, epsilon: 9, ...limits });
  const proved = await cost({});
  assert.ok(proved.verified && proved.reason === "" && proved.epsilon === proved.verifiedEpsilon);
  // A little less, as others count: it costs what was proved here, and the limit is for the promise.
  const tight = await cost({ epsilon: proved.verifiedEpsilon / 1.001 }, { epsilon: proved.verifiedEpsilon / 1.0005 });
  assert.ok(tight.verified && tight.epsilon === proved.verifiedEpsilon);
  const less = proved.verifiedEpsilon / 1.005;
  const unproved = await cost({ epsilon: less });
  assert.ok(!unproved.verified && unproved.verifiedEpsilon > less);
  assert.equal(unproved.epsilon, unproved.verifiedEpsilon); // it costs what was proved
  assert.match(unproved.reason, /could not work out/);
  // Several reports hide among fewer people each, and add up.
  const thrice = await cost({ reports_per_person: 3 });
  assert.ok(thrice.verifiedEpsilon > 3 * proved.verifiedEpsilon && thrice.crowd === 333);
  assert.equal(thrice.localEpsilon, 3 * proved.localEpsilon);
  const several = vectors("mechanisms").mechanisms.find(({ name }) => name === "zero-sum").survey;
  const crowd = policy.costOf(await surveys.readSurvey(utf8(several)), { ...policy.DEFAULTS, epsilon: 9, localEpsilon: Infinity });
  assert.ok(!crowd.verified && crowd.verifiedEpsilon === Infinity && crowd.epsilon < 9);
});

// What is promised and is not so.

const bit = { ...JSON.parse(vectors("reports").cases[0].survey), answers: ["no", "yes"] };
// e^4 is 54.598…
const lied = { ...bit, mechanism: { name: "grr", k: 2, epsilon: 4 }, sampler: { high: 54, low: 1, total: 55 }, epsilon: 0.001 };
const costs = async (told, change = {}, limits = {}) =>
  policy.costOf(await surveys.readSurvey(inside.canonical.written({ ...told, ...change })), { ...policy.DEFAULTS, ...limits });
const crowds = (minimum) => ({ batches: { ...bit.batches, minimum, target: 1e10 } });
const broken = (error) =>
  error instanceof ShoalError && error.kind === "tampered" && error.message === "This survey promises more than it can keep. Nothing was sent.";

test("a promise that cannot be kept is refused where this device proves what anybody can", async () => {
  await assert.rejects(costs(lied, crowds(5000)), broken);
  const { verifiedEpsilon } = await costs(lied, { ...crowds(5000), epsilon: 1 });
  assert.ok(verifiedEpsilon > 0.5 && verifiedEpsilon < 0.7);
  await assert.rejects(costs(lied, { ...crowds(5000), epsilon: verifiedEpsilon / 1.11 }), broken);
  // A crowd that hardly helps, which others count more finely, is no reason to refuse.
  const few = { ...lied, mechanism: { name: "grr", k: 2, epsilon: 4 }, ...crowds(1000), delta: 1e-30 };
  const half = await costs(few, { epsilon: 0.5 }, { epsilon: 9 });
  assert.ok(half.verifiedEpsilon > 2 && half.epsilon === half.verifiedEpsilon, JSON.stringify(half));
  assert.equal((await costs(lied, { ...crowds(5000), epsilon: verifiedEpsilon / 1.09 })).epsilon, verifiedEpsilon);
  // Above a billion people it counts a billion, and others may count them all.
  const most = await costs(lied, { ...crowds(1e10), epsilon: 1e-4 });
  assert.ok(most.epsilon === most.verifiedEpsilon && most.epsilon > 1e-4);
});

test("elsewhere an answer costs what was proved, and that is held against the limit", async () => {
  const piecewise = JSON.parse(vectors("mechanisms").bounds.find(({ survey }) => survey.includes("piecewise")).survey);
  const coins = JSON.parse(vectors("mechanisms").bounds.find(({ survey }) => survey.includes("coins")).survey);
  for (const [told, change] of [
    [lied, crowds(900)], // too few people
    [lied, { ...crowds(5000), mechanism: { name: "grr", k: 2, epsilon: 6 }, sampler: { high: 400, low: 1, total: 401 } }],
    [lied, { ...crowds(9000), reports_per_person: 2 }],
    [piecewise, { ...crowds(5000), epsilon: 0.001 }],
    [coins, { ...crowds(5000), epsilon: 0.001 }],
  ]) {
    const found = await costs(told, change, { epsilon: 9, localEpsilon: 9 });
    assert.ok(!found.verified && found.epsilon === found.verifiedEpsilon && found.epsilon > 0.05, JSON.stringify(found));
    const limits = { epsilon: found.epsilon / 1.001, localEpsilon: 9 };
    await assert.rejects(costs(told, change, limits), (error) => error.kind === "policy" && /as far as this device can prove/.test(error.message));
  }
});

test("as the accountant has it: never below what is lost, little above what it proves, never called broken", async () => {
  for (const { survey: text, crowds: found } of vectors("mechanisms").bounds) {
    for (const { n, delta, epsilon, lower } of found) {
      const told = { ...JSON.parse(text), ...crowds(n), delta, epsilon, dishonest: 0 };
      const { name } = told.mechanism;
      const { epsilon: cost, verifiedEpsilon } = await costs(told, {}, { epsilon: 99, localEpsilon: 99 });
      assert.equal(cost, verifiedEpsilon);
      assert.ok(cost >= lower, `${name} ${n}: ${cost} < ${lower}`);
      // Coins are a protocol to the accountant, which knows them better than as any randomizer.
      const most = name === "coins" ? 1.3 : n < 1000 ? 1.02 : 1.002;
      assert.ok(cost <= epsilon * most, `${name} ${n}: ${cost} > ${epsilon}`);
      assert.ok(cost >= epsilon * (1 - 2e-5), `${name} ${n}: ${cost} < ${epsilon}`);
    }
  }
  // A block of two bits: its law has messages that suit both answers, which this device counts coarsely.
  const hadamard = JSON.parse(vectors("mechanisms").mechanisms.find(({ name }) => name.startsWith("hadamard")).survey);
  const sampler = { blocks: 1, width: 4, high: 2718281, low: 1000000, total: 3718281 };
  const change = { ...crowds(1000), mechanism: { name: "hadamard", k: 3, epsilon: 1 }, sampler, answers: ["a", "b", "c"], slots: 1, message_bytes: 1 };
  const proved = await costs(hadamard, { ...change, delta: 1e-12, epsilon: 0.175118, dishonest: 0 });
  assert.ok(proved.verifiedEpsilon > 1.01 * 0.175118 && proved.epsilon === proved.verifiedEpsilon);
});

// Several rounds.

/** The laws of two counts of answers, joined as independent: pairs of probabilities. */
const both = (one, other) => one.flatMap(([p, q]) => other.map(([r, s]) => [p * r, q * s]));

/** Probabilities of all counts of so many people's reports, if one of them gives the one or the other answer. */
function outcomes(table, others) {
  const counted = (rows) => {
    let law = new Map([["", 1]]);
    for (const row of rows) {
      const next = new Map();
      for (const [key, p] of law) {
        row.forEach((q, i) => {
          const counts = [...key, i].sort().join("");
          next.set(counts, (next.get(counts) ?? 0) + p * q);
        });
      }
      law = next;
    }
    return law;
  };
  const [first, second] = [0, 1].map((answer) => counted([table[answer], ...others.map((other) => table[other])]));
  return [...first].map(([key, p]) => [p, second.get(key)]);
}

test("several rounds of a small crowd: at least the exact value, by listing all outcomes", () => {
  for (const [questions, times] of [[[[2, 3], [3, 2]], 1], [[[3, 5], [2, 9], [2, 1.5]], 1], [[[2, 4]], 3], [[[2, 2], [3, 3]], 2]]) {
    for (const n of [1, 2, 3]) {
      for (const delta of [0.05, 1e-3]) {
        const laws = questions.map(([k, a]) => [{ a, q: 1 / (a + k - 1) }]);
        const found = composition.composedEpsilon(laws, times, n, delta);
        assert.ok(found <= times * questions.reduce((sum, [, a]) => sum + Math.log(a), 0) * (1 + 1e-6));
        for (const other of [0, 1]) {
          const each = questions.map(([k, a]) => outcomes(response(k, a), Array(n - 1).fill(other)));
          const all = each.flatMap((one) => Array(times).fill(one)).reduce(both);
          const exact = all.reduce((sum, [p, q]) => sum + Math.max(0, p - Math.exp(found) * q), 0);
          assert.ok(exact <= delta, `${JSON.stringify([questions, times, n, delta, other])}: ${exact}`);
        }
      }
    }
  }
});

test("several questions: what Python says that devices prove, and within 2 % of the accountant", async () => {
  const near = [];
  for (const { survey: text, epsilon, proved } of vectors("compositions").surveys) {
    const found = surveys.provedEpsilon(await surveys.readSurvey(utf8(text)));
    assert.ok(Math.abs(found / proved - 1) < 1e-9, `${found} ${proved}`);
    // Both are upper bounds; the accountant's grid costs it a few parts in ten thousand.
    assert.ok(found >= epsilon * (1 - 5e-4) && found <= 1.02 * epsilon, `${found} ${epsilon}`);
    near.push(found / epsilon);
  }
  assert.ok(near.length >= 16 && near.filter((ratio) => ratio < 1.002).length >= near.length / 2, near.join(" "));
});

test("four questions at the limit, in the smallest crowd: a page lets people answer", async () => {
  const survey = await surveys.readSurvey(utf8(vectors("compositions").surveys[0].survey));
  assert.deepEqual([survey.questions.length, survey.epsilon, survey.minimum], [4, 2, 100]);
  const cost = policy.costOf(survey, policy.DEFAULTS);
  assert.ok(cost.verified && cost.epsilon < 2 * 1.002, `${cost.epsilon}`);
});

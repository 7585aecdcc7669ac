// A survey that does not follow from itself is refused, whatever it promises.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inside, ShoalError, utf8, vectors } from "./kit.mjs";

const { canonical, survey: surveys } = inside;
const base = JSON.parse(vectors("reports").cases[0].survey);
const recorded = Object.fromEntries(vectors("mechanisms").mechanisms.map(({ name, survey }) => [name, JSON.parse(survey)]));
const [unary, , subset] = vectors("mechanisms").bits.map(({ survey }) => JSON.parse(survey));
const read = (told) => surveys.readSurvey(canonical.written(told));
const present = inside.older.present(base);
const wrong = (kind = "tampered") => (error) => error instanceof ShoalError && error.kind === kind && !error.sent;
const party = (url) => ({ ...base.shuffler, url });

test("the survey itself is fine", async () => {
  const found = await read(base);
  assert.equal(found.notAfter, base.not_after);
  assert.equal(found.minimum, base.batches.minimum);
  assert.equal(found.mechanism, "grr");
  assert.equal(surveys.crowdOf(found), 1000);
});

test("fields that cannot be right", async () => {
  for (const change of [
    { name: "" }, { name: " " }, { name: "x".repeat(2001) }, { question: 5 }, { purpose: null },
    { answers: ["car", "bus", "bike"] }, { answers: ["car", "bus", "bike", "car"] }, { answers: ["car", "bus", "bike", " "] },
    { answers: ["car", "bus", "bike", "x".repeat(201)] }, { answers: "four" }, { answers: ["car", "bus", "bike", 4] },
    { batches: { ...base.batches, minimum: 1 } }, { batches: { ...base.batches, target: 999 } }, { batches: { ...base.batches, small: "keep" } },
    { batches: { ...base.batches, max_age: 0 } }, { batches: { ...base.batches, target: 1e11 } }, { batches: { ...base.batches, more: 1 } },
    { epsilon: 0 }, { epsilon: "1" }, { delta: 0 }, { delta: 1 }, { delta: 1e-31 }, { dishonest: -0.1 }, { dishonest: 1.1 }, { dishonest: 1 },
    { participation: 0 }, { participation: 1.5 }, { reports_per_person: 0 }, { reports_per_person: 1.5 }, { reports_per_person: 1001 },
    { not_before: -1 }, { not_after: base.not_before }, { token_bytes: -1 }, { slots: 2 }, { message_bytes: 2 }, { kind: "other" },
    { shuffler: party("http://shuffler.example") }, { shuffler: party("https://shuffler.example/") }, { shuffler: { url: "https://a.example" } },
    { analyzer: { ...base.analyzer, fingerprint: "A".repeat(64) } }, { extra: 1 }, { sampler: {} }, { sampler: [] }, { sampler: null }, { mechanism: { ...base.mechanism, k: 5 } },
    { mechanism: { ...base.mechanism, more: 1 } },
  ]) {
    await assert.rejects(read({ ...base, ...change }), wrong(), JSON.stringify(change));
  }
  const { purpose: _, ...less } = base;
  await assert.rejects(read(less), wrong());
  await assert.rejects(read({ ...base, version: 2 }), wrong("unsupported"));
  await assert.rejects(read({ ...base, version: 3 }), wrong());
  await assert.rejects(read({ ...base, suite: "rot13" }), wrong("unsupported"));
});

test("an early survey and the same in the present version are one, but for their names", async () => {
  const [early, late] = [await read(base), await read(present)];
  assert.notEqual(early.id, late.id);
  assert.deepEqual(early.bytes, canonical.written(base));
  for (const name of ["questions", "admission", "epsilon", "minimum", "localEpsilon", "reportBytes", "notAfter"])
    assert.deepEqual(early[name], late[name], name);
  assert.deepEqual([early.answers, early.questions[0].required, early.questions[0].name], [base.answers, true, "answer"]);
});

test("questions that no form asks", async () => {
  const [item] = present.questions;
  const asking = (change, more = {}) => read({ ...present, questions: [{ ...item, ...more, question: { ...item.question, ...change } }] });
  assert.equal((await asking({ name: "travel.1" })).questions[0].name, "travel.1");
  for (const change of [
    { kind: "scale" }, { name: "" }, { name: "a b" }, { text: " " }, { text: null }, { labels: base.answers.slice(1) }, { labels: [...base.answers, "x"] },
    { labels: 4 }, { labels: ["car", "bus", "car", "foot"] }, { other: true }, { other: null }, { missing: "cell" }, { missing: null }, { missing: "drop" }, { weight: 2 },
    { groups: {} }, { groups: "abc" }, { groups: { column: "x", labels: ["a", "b"], other: false, missing: "refuse", text: "?" } },
  ]) {
    await assert.rejects(asking(change), wrong(), JSON.stringify(change));
  }
  const { missing: _, ...skippable } = item.question;
  await assert.rejects(read({ ...present, questions: [{ ...item, question: skippable }] }), wrong()); // five answers then
  const three = { ...skippable, labels: base.answers.slice(1) };
  const found = await read({ ...present, questions: [{ ...item, question: three }] });
  assert.deepEqual([found.questions[0].required, found.answers.at(-1)], [false, "(none)"]);
  assert.deepEqual(surveys.valuesOf(found, "(none)"), [3]);
  for (const questions of [[], {}, null, [item, item], [{ ...item, more: 1 }], Array(21).fill(item), [null]])
    await assert.rejects(read({ ...present, questions }), wrong(), JSON.stringify(questions));
  for (const version of [1, 2, 3]) await assert.rejects(read({ ...present, version }), wrong());
  for (const version of [5, 0, "4"]) await assert.rejects(read({ ...present, version }), wrong("unsupported"));
  for (const admission of [{ kind: "open", dishonest: 0.1 }, { kind: "invited", dishonest: 0.5, entitled: 2000 }])
    await assert.rejects(read({ ...present, admission }), wrong());
});

test("a survey of version 2 says who may report, and counts on the others alone", async () => {
  const { dishonest: _, ...fields } = base;
  const told = (admission, more = {}) => read({ ...fields, ...more, version: 2, admission });
  for (const [admission, crowd, more] of [
    [{ kind: "open", dishonest: 0 }, 1000],
    [{ kind: "open", dishonest: 999 }, 1],
    [{ kind: "invited", dishonest: 1, entitled: 1000 }, 999],
    [{ kind: "invited", dishonest: 100, entitled: 400 }, 233, { reports_per_person: 3 }],
  ]) {
    const found = await told(admission, more);
    assert.deepEqual(found.admission, admission);
    assert.equal(surveys.crowdOf(found), crowd);
  }
  for (const admission of [
    { kind: "open" }, { kind: "open", dishonest: 0.1 }, { kind: "open", dishonest: -1 }, { kind: "open", dishonest: "1" },
    { kind: "open", dishonest: 1000 }, { kind: "open", dishonest: 1e16 }, { kind: "open", dishonest: 0, entitled: 5 },
    { kind: "open", dishonest: true }, { kind: "invited", dishonest: 0 }, { kind: "invited", dishonest: 0, entitled: 999 },
    { kind: "invited", dishonest: 2000, entitled: 2000 }, { kind: "invited", dishonest: 0, entitled: 1e11 },
    { kind: "invited", dishonest: 0, entitled: 2000, more: 1 },
  ]) {
    await assert.rejects(told(admission), wrong(), JSON.stringify(admission));
  }
  for (const admission of [{ kind: "tokens", dishonest: 0 }, "open", null, []])
    await assert.rejects(told(admission), wrong("unsupported"), JSON.stringify(admission));
  await assert.rejects(read({ ...base, version: 2, admission: { kind: "open", dishonest: 0 } }), wrong());
  await assert.rejects(read({ ...fields, admission: { kind: "open", dishonest: 0 } }), wrong());
  assert.deepEqual((await read({ ...base, dishonest: 0.1 })).admission, { kind: "open", dishonest: 0.1 });
});

test("numbers of a sampler that would tell more than the parameters say", async () => {
  const bad = async (told, sampler, mechanism = {}) =>
    assert.rejects(
      read({ ...told, sampler: { ...told.sampler, ...sampler }, mechanism: { ...told.mechanism, ...mechanism } }),
      wrong(),
      JSON.stringify([sampler, mechanism]),
    );
  const { high, low, total } = base.sampler;
  await bad(base, { high: high + 1e6, total: total + 1e6 }); // what is more is beyond floating point
  await bad(base, { high: 3, low: 1, total: 6 });
  await bad(base, { total: total + 1 });
  await bad(base, { high: low, total: 4 * low });
  await bad(base, { low: 0, total: high });
  await bad(base, { high: String(high) });
  await bad(base, {}, { epsilon: 0.999999 });
  await bad(base, {}, { epsilon: -1 });
  const blocks = recorded["hadamard, blocks"];
  await bad(blocks, { width: blocks.sampler.width + 1 });
  await bad(blocks, { width: blocks.sampler.width / 2 });
  await bad(blocks, { blocks: 1 });
  const space = recorded["projective, space"];
  for (const q of [1, 4, 6, 9]) await bad(space, { q });
  await bad(space, { t: 1 });
  // All of it fits, but four is no prime, and what is drawn would have other odds.
  await bad(space, { q: 4, t: 3, high: 3, low: 2, total: 5 * 3 + 16 * 2 });
  await bad(subset, { with: subset.sampler.with + 1 });
  await bad(subset, { size: 11 });
  await bad(unary, { false: unary.sampler.false - 1 });
  await bad(unary, { bits: 31 });
  await bad(unary, { true: unary.sampler.true + 1 });
  const { hashing, dummies, sparse, coins, duchi } = recorded;
  await bad(hashing, { buckets: hashing.sampler.buckets + 1 });
  await bad(dummies, { always: 1 });
  await bad(dummies, { sometimes: 0 });
  await bad(dummies, {}, { dummies: 2.5 });
  await bad(recorded["zero-sum"], { gamma: recorded["zero-sum"].sampler.gamma + 1 });
  await bad(coins, { coins: coins.sampler.coins - 1 });
  const steps = sparse.sampler.copies_steps;
  await bad(sparse, { copies_steps: steps.slice(-1) });
  await bad(sparse, { copies_steps: [...steps.slice(0, -1), "4611686018427387903"] });
  await bad(sparse, { copies_steps: "sha256:00" });
  await bad(sparse, { copies_steps: [String(BigInt(steps[0]) / 2n), ...steps.slice(1)] });
  // What the mechanism cuts off falls on the likeliest number, which is none.
  const beyond = (1n << 62n) - BigInt(steps[2]);
  const copies_steps = steps.slice(0, 3).map((step) => String(BigInt(step) + beyond));
  const cut = { ...sparse, slots: 3, sampler: { ...sparse.sampler, copies_steps } };
  assert.equal((await read({ ...cut, mechanism: { ...sparse.mechanism, most: 2 } })).mechanism, "sparse");
  for (const most of [null, 1, 3, 5, 1.5, "2"]) await bad(cut, {}, { most });
  await bad(duchi, { width: 2 });
  await bad(duchi, {}, { low: 3, high: 3 });
  await bad(duchi, {}, { low: -1e308, high: 1e308 }); // what lies between is beyond floating point
});

test("only one way of writing is a survey", async () => {
  const text = vectors("reports").cases[0].survey;
  for (const other of [
    `${text} `, ` ${text}`, text.replace(":", ": "), text.replace('"epsilon":2.5', '"epsilon":2.50'),
    text.replace('"delta":0.000001', '"delta":1e-6'), text.replace('"dishonest":0', '"dishonest":-0'),
    text.replace("{", '{"a":1,"a":1,'), `[${text}]`, "", "null", "{", `\ufeff${text}`, text.replace("car", "\\ud800"), text.replace("car", "\\u0063ar"),
  ]) {
    await assert.rejects(surveys.readSurvey(utf8(other)), wrong(), other);
  }
  await assert.rejects(surveys.readSurvey(Uint8Array.of(0xff, 0xfe)), wrong());
  const long = JSON.parse(text);
  long.answers[0] = "é😀".repeat(100); // two hundred characters, whatever they take
  assert.equal((await read(long)).answers[0].length, 300);
});

test("people are counted as the survey writes the share of the dishonest", async () => {
  const crowd = async (dishonest, minimum = 1000, reports = 1) =>
    surveys.crowdOf(await read({ ...base, dishonest, reports_per_person: reports, batches: { ...base.batches, minimum, target: 1e9 } }));
  assert.equal(await crowd(0.1), 900); // and not 899, as with the float next to it
  assert.equal(await crowd(0.7, 10), 3);
  assert.equal(await crowd(1e-7, 1e9), 999_999_900);
  assert.equal(await crowd(0.25, 1000, 7), 107);
  await assert.rejects(crowd(0.9, 10, 2), wrong());
});

test("delta of whoever takes part", async () => {
  const delta = async (change) => surveys.deltaTakingPart(await read({ ...base, ...change }));
  assert.equal(await delta({}), 1e-6);
  const half = await delta({ participation: 0.5 });
  assert.ok(half <= 2e-6 && half > 2e-6 * (1 - 1e-15));
  const thrice = await delta({ participation: 0.5, reports_per_person: 3 });
  assert.ok(thrice <= 1e-6 / 0.875 && thrice > (1e-6 / 0.875) * (1 - 1e-14));
  assert.equal(await delta({ participation: 1e-9 }), 0.5);
});

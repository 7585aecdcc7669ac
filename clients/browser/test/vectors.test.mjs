// Recorded surveys, reports, lists of keys and draws: the same bytes as in Python.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hex, inside, messagesOf, unhex, utf8, vectors, ShoalError } from "./kit.mjs";

const { bytes, canonical, keys, mechanisms, sealing, survey: surveys } = inside;
const recorded = vectors("mechanisms");
const read = (text) => surveys.readSurvey(utf8(text));
const kind = (wanted) => (error) => error instanceof ShoalError && error.kind === wanted;

test("recorded surveys have their names, and what cannot be sealed for is said", async () => {
  const [one, number, token, hybrid] = vectors("reports").cases;
  for (const { survey, id, report_bytes: size } of [one, number]) {
    const found = await surveys.readSurvey(utf8(survey), id);
    assert.equal(found.id, id);
    assert.equal(found.reportBytes, size);
    assert.equal(hex(canonical.written(JSON.parse(survey))), hex(utf8(survey)));
  }
  await assert.rejects(read(token.survey), kind("unsupported"));
  await assert.rejects(read(hybrid.survey), kind("unsupported"));
});

test("recorded reports open, and so do those that are sealed here", async () => {
  for (const { survey, id, shuffler, analyzer, reports, messages } of vectors("reports").cases.slice(0, 2)) {
    const { message_bytes: size, slots } = JSON.parse(survey);
    for (const [i, report] of reports.entries()) {
      assert.deepEqual(await messagesOf(unhex(report), unhex(id), { shuffler, analyzer }, size), messages[i]);
    }
    const party = (key) => ({ raw: unhex(key.public), number: key.number });
    const made = await sealing.seal(unhex(id), unhex(messages[0].join("")), [[slots, size]], {
      shuffler: party(shuffler),
      analyzer: party(analyzer),
    });
    assert.equal(made.length, reports[0].length / 2);
    assert.deepEqual(await messagesOf(made, unhex(id), { shuffler, analyzer }, size), messages[0]);
    await assert.rejects(messagesOf(made, new Uint8Array(32), { shuffler, analyzer }, size));
  }
});

test("envelopes are bound to the same purposes", () => {
  for (const { role, survey, number, info } of recorded.infos) {
    assert.equal(hex(sealing.infoOf(role, unhex(survey), number)), info);
  }
});

test("recorded invitations are read, and give the same codes", async () => {
  const { invitations, surveys: recordedSurveys } = vectors("admission");
  for (const { secret, spellings, mistyped, codes } of invitations) {
    for (const text of spellings) assert.equal(hex(await inside.invitation.secretOf(text)), secret, text);
    for (const text of mistyped) await assert.rejects(inside.invitation.secretOf(text), kind("invitation"), text);
    for (const { survey, occasion, code } of codes)
      assert.equal(hex(await inside.invitation.codeOf(spellings[1], survey, occasion)), code);
  }
  for (const { survey, id, crowd } of recordedSurveys) {
    const found = await read(survey);
    assert.equal(found.id, id);
    assert.equal(surveys.crowdOf(found), crowd);
  }
});

test("recorded lists of keys verify, and no others", async () => {
  for (const { role, fingerprint, document, now, current } of vectors("keys").lists) {
    const found = await keys.verified(utf8(document), role, fingerprint, now);
    assert.equal(found.keys[0].public, current["x25519-aes128gcm"]);
    const other = role === "shuffler" ? "analyzer" : "shuffler";
    for (const [changed, as, name, time] of [
      [document, other, fingerprint, now],
      [document, role, fingerprint.replace(/./, "0"), now],
      [document, role, fingerprint, 2001],
      [document, role, fingerprint, 1000 - 86_401],
      [document.replace('"issued":1000', '"issued":1001'), role, fingerprint, now],
      [document.replace(/"signature":"./, '"signature":"0'), role, fingerprint, now],
      [document.replace('"number":3', '"number":5'), role, fingerprint, now],
      [`${document} `, role, fingerprint, now],
    ]) {
      await assert.rejects(keys.verified(utf8(changed), as, name, time), changed + as + name + time);
    }
  }
});

for (const { name, survey, local_epsilon: local, draws } of recorded.mechanisms) {
  test(`${name}: the same draws make the same messages`, async () => {
    const found = await read(survey);
    const device = surveys.devicesFor(found)[0];
    if (local === null) assert.equal(found.localEpsilon, Infinity);
    else assert.ok(Math.abs(found.localEpsilon - local) < 1e-13 * local, `${found.localEpsilon} ${local}`);
    for (const { value, drawn, messages } of draws) {
      const left = drawn.split(", ");
      const below = (bound) => {
        const [number, of] = left.shift().split(" of ");
        assert.equal(of, String(bound));
        return BigInt(number);
      };
      assert.equal(hex(device.draw(value, below)), messages);
      assert.deepEqual(left, []);
    }
  });
}

test("bits of answers are packed in the same way", async () => {
  for (const { name, survey, local_epsilon: local, rows } of recorded.bits) {
    const found = await read(survey);
    const device = surveys.devicesFor(found)[0];
    assert.ok(Math.abs(found.localEpsilon - local) < 1e-12 * local);
    if (name !== "unary") continue;
    for (const { bits, row } of rows) {
      const left = [...bits];
      const below = (bound) => (assert.equal(bound, 1n << 32n), left.shift() ? 0n : bound - 1n);
      assert.equal(hex(device.draw(0, below)), row);
    }
  }
});

test("a subset has its size, and the truth in it if the draw says so", async () => {
  const { survey } = recorded.bits.at(-1);
  const told = JSON.parse(survey).sampler;
  const device = surveys.devicesFor(await read(survey))[0];
  for (const truth of [0, 5, 10]) {
    for (const first of [0, told.with - 1, told.with, told.total - 1]) {
      let calls = 0;
      const row = device.draw(truth, (bound) => (calls++ ? inside.random.below(bound) : BigInt(first)));
      const set = [...Array(11).keys()].filter((i) => row[i >> 3] & (128 >> (i & 7)));
      assert.equal(set.length, told.size);
      assert.equal(set.includes(truth), first < told.with);
      assert.equal(row[1] & 0b11111, 0);
    }
  }
});

test("a mechanism that is not known is said to be so", async () => {
  const told = JSON.parse(vectors("reports").cases[0].survey);
  for (const name of ["near-central", "laplace", "constructor", "toString"]) {
    const changed = canonical.written({ ...told, mechanism: { ...told.mechanism, name } });
    await assert.rejects(surveys.readSurvey(changed), kind("unsupported"));
  }
});

test("whole numbers are uniform on what they should be", () => {
  const seen = new Map();
  for (let i = 0; i < 6000; i++) {
    const drawn = inside.random.below(6n);
    seen.set(drawn, (seen.get(drawn) ?? 0) + 1);
  }
  assert.deepEqual([...seen.keys()].sort(), [0n, 1n, 2n, 3n, 4n, 5n]);
  // Six standard deviations of Bin(6000, 1/6).
  for (const count of seen.values()) assert.ok(Math.abs(count - 1000) < 6 * 28.9);
  for (const bound of [1n, 2n, 3n, (1n << 62n) - 1n, (1n << 63n) + 1n, 1n << 64n]) {
    for (let i = 0; i < 50; i++) assert.ok(inside.random.below(bound) < bound);
  }
});

test("words that would favour a number are drawn again", () => {
  const draw = crypto.getRandomValues;
  const words = [(1n << 64n) - 1n, 5n];
  crypto.getRandomValues = (array) => (array.fill(words.shift()), array);
  try {
    assert.equal(inside.random.below(3n), 2n); // 2^64 - 1 is a multiple of 3
  } finally {
    crypto.getRandomValues = draw;
  }
  assert.deepEqual(words, []);
});

test("hashes and digits", async () => {
  assert.equal(await bytes.sha256(utf8("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  for (const wrong of ["0", "zz", "AB", "0g", 5, null]) assert.equal(bytes.unhex(wrong), null);
  assert.equal(await mechanisms.deviceOf({ name: 5 }, {}, 2), null);
});

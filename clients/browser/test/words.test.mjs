// What the survey page says of what the client has found.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { build } from "esbuild";
import { common } from "../bundling.mjs";

const survey = { analyzer: { url: "https://analyzer.example" } };
let words;

before(async () => {
  const { outputFiles } = await build({ ...common, entryPoints: ["src/page/words.ts"], format: "esm", write: false });
  words = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
});

test("a promise that the browser could not prove is not said without what it could", () => {
  const reason = "This device could not work out the promise by itself.";
  const lied = { epsilon: 0.001, localEpsilon: 3.98, verified: false, verifiedEpsilon: 0.60304, reason };
  const said = words.checkedBy(survey, lied);
  assert.match(said, /claimed by analyzer\.example, .* can prove by itself is an ε of at most 0\.60304, and that is what it counts/);
  assert.ok(!said.includes(reason));
  const crowd = words.checkedBy(survey, { ...lied, localEpsilon: Infinity, verifiedEpsilon: Infinity });
  assert.ok(crowd.endsWith(reason));
});

test("a promise that the browser has proved is not said to be another number", () => {
  const proved = { epsilon: 0.60304, localEpsilon: 3.98, verified: true, verifiedEpsilon: 0.60304, reason: "" };
  const within = words.checkedBy({ ...survey, epsilon: 1 }, proved);
  assert.match(within, /^Checked by your browser.* itself computed ε at the smallest crowd: ε = 0\.6031, and at most 1 is promised\./);
  const near = words.checkedBy({ ...survey, epsilon: 1 }, { ...proved, verifiedEpsilon: 1.0000085 });
  assert.match(near, /agrees with the promised ε of at most 1\. /);
  assert.ok(!near.includes("1.0"));
  const own = words.ownBound({ ...survey, epsilon: 1 }, { ...proved, verifiedEpsilon: 1.0000085 });
  assert.match(own, /is rounded up: it is 1\.00001, and agrees with the promised 1 to two parts in a thousand\.$/);
  assert.equal(words.ownBound({ ...survey, epsilon: 1 }, proved), "");
  assert.equal(words.ownBound({ ...survey, epsilon: 0.5 }, { ...proved, verified: false }), "");
  const close = words.checkedBy({ ...survey, epsilon: 0.99998 }, { ...proved, verifiedEpsilon: 0.99996 });
  assert.match(close, /ε = 0\.99996, and at most 0\.99998 is promised/);
  const odd = words.checkedBy({ ...survey, epsilon: 1.5150000000000001 }, proved);
  assert.match(odd, /at most 1\.515 is promised/);
});

test("one ε0 is one number on the page: these are what shoal.explain.text.up prints", () => {
  const printed = { 2.62391: "2.624", 2.3456789: "2.3457", 0.1181541: "0.11816", 1: "1", 12.345601: "12.346" };
  for (const [localEpsilon, shown] of Object.entries(printed)) {
    const said = words.checkedBy({ ...survey, epsilon: 1 }, { localEpsilon: Number(localEpsilon), verified: true, verifiedEpsilon: 0.5, reason: "" });
    assert.ok(said.endsWith(` has computed ε0 = ${shown} from the odds in the survey.`), said);
  }
});

test("nothing is said to be unsent of which a try was made", () => {
  assert.match(words.forgotten(true, true), /^Deleted\. .* nothing was sent\.$/);
  assert.ok(!/nothing was sent/i.test(words.forgotten(true, false)));
  assert.match(words.forgotten(true, false), /^Deleted\. .* not sent any more\. If an earlier attempt arrived/);
  assert.match(words.forgotten(false, false), /No report was waiting/);
});

test("a refusal does not tell people of limits that they have never set", () => {
  const of = (kind, message) => words.refusal({ kind, message: `${message} Nothing was sent.` }, open).join(" ");
  const open = { notBefore: 1_765_800_000, notAfter: 1_797_336_000 };
  const weak = of("policy", "This survey has a promised epsilon of 6, and you allow at most 2.");
  assert.match(weak, /^The page has limits that protect people who answer\. They refuse this survey: it has a promised ε of 6, and the page allows at most 2\. .* Nothing was sent\.$/);
  const small = of("policy", "This survey may open batches of 20 reports, and you allow no fewer than 100.");
  assert.match(small, /batches of 20 reports, and the page allows no fewer than 100\. Nothing was sent\.$/);
  assert.equal(of("expired", "This survey ended on 2026-12-15."), "It ended on 15 December 2026, 12:00 (UTC). Nothing was sent.");
  assert.equal(of("not-started", "This survey begins on 2025-12-15."), "It begins on 15 December 2025, 12:00 (UTC). Nothing was sent.");
  assert.equal(of("keys", "They differ."), "They differ. Nothing was sent.");
});

test("what cannot be taken back is said once, beside the end of the survey", () => {
  const several = { ...survey, reportsPerPerson: 2, participation: 1 };
  for (const text of [...words.sent(several, 1), words.FORGET]) assert.ok(!text.includes("take back"));
});

test("whoever has answered is told when and where results appear", () => {
  const [when, where] = words.results({ ...survey, minimum: 1500 });
  assert.equal(when, "Results appear once at least 1,500 reports are together and mixed, ");
  assert.equal(where, "from the operator of analyzer.example, the analyzer");
});

test("a refused invitation is told in words, and that the answer is kept", () => {
  for (const [refusal, title] of [["code_spent", /was used/], ["code_unknown", /does not know/], ["code_revoked", /no longer valid/]]) {
    const [first, ...rest] = words.unadmitted(refusal);
    assert.match(first, title);
    assert.match(rest.join(" "), /kept on this device, already randomized, and has not counted/);
  }
});

test("what became of a report that was given up is a sentence", () => {
  const [, text] = words.givenUp("the shuffler refused it");
  assert.match(text, /^The shuffler refused it\. It is not sent again/);
  assert.match(words.givenUp("")[1], /^It is not sent again/);
});

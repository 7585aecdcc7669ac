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
  assert.match(said, /claimed by analyzer\.example, .* can prove by itself is an ε of at most 0\.604, and that is what it counts/);
  assert.ok(!said.includes(reason));
  const crowd = words.checkedBy(survey, { ...lied, localEpsilon: Infinity, verifiedEpsilon: Infinity });
  assert.ok(crowd.endsWith(reason));
  assert.match(words.checkedBy(survey, { ...lied, verified: true, reason: "" }), /^Checked by your browser.*0\.604\./);
});

test("what became of a report that was given up is a sentence", () => {
  const [, text] = words.givenUp("the shuffler refused it");
  assert.match(text, /^The shuffler refused it\. It is not sent again/);
  assert.match(words.givenUp("")[1], /^It is not sent again/);
});

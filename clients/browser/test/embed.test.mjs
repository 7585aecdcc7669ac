// What a script tag on another site does.

import assert from "node:assert/strict";
import { before, beforeEach, mock, test } from "node:test";
import { build } from "esbuild";
import { common } from "../bundling.mjs";

const NAME = "shoal-survey";
let embed, said, found;

before(async () => {
  const { outputFiles } = await build({ ...common, entryPoints: ["src/page/embed.ts"], format: "esm", write: false });
  ({ embed } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`));
});

beforeEach(() => {
  mock.restoreAll();
  found = null;
  said = mock.method(console, "error", () => {}).mock;
  globalThis.document = {
    createElement: () => ({ setAttribute(name, value) { this[name] = value; } }),
    querySelector: (name) => (name === NAME ? found : null),
  };
});

const tag = (dataset) => {
  const put = [];
  embed({ dataset, src: "https://analyzer.example/embed.js", closest: () => null, after: (made) => put.push(made) }, NAME);
  return put.map(({ survey, analyzer, compact, invitation }) => ({
    survey,
    analyzer,
    ...(compact !== undefined && { compact }),
    ...(invitation !== undefined && { invitation }),
  }));
};

test("the survey that it names is put where it stands", () => {
  assert.deepEqual(tag({ survey: "25ce" }), [{ survey: "25ce", analyzer: "https://analyzer.example/" }]);
  const elsewhere = { survey: "25ce", analyzer: "https://other.example" };
  assert.deepEqual(tag(elsewhere), [elsewhere]);
  const compact = { ...elsewhere, compact: "" };
  assert.deepEqual(tag(compact), [compact]);
  const invited = { ...elsewhere, invitation: "0000-0000" };
  assert.deepEqual(tag(invited), [invited]);
  assert.equal(said.callCount(), 0);
});

test("what is missing is said to whoever looks", () => {
  for (const dataset of [{}, { survey: "" }]) assert.deepEqual(tag(dataset), []);
  assert.equal(said.callCount(), 2);
  const [line] = said.calls[0].arguments;
  assert.match(line, /data-survey is missing.*https:\/\/analyzer\.example\/embed\.js" data-survey="…"/);
});

test("a page that has the element itself needs no name in its script", () => {
  found = {};
  assert.deepEqual(tag({}), []);
  assert.equal(said.callCount(), 0);
});

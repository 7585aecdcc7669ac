// The service worker: what it answers with, whatever becomes of what it wants to keep.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import vm from "node:vm";
import { build } from "esbuild";
import { common } from "../bundling.mjs";
import { NOW, Services } from "./kit.mjs";

const ORIGIN = "https://analyzer.example";
const PAGE = `${ORIGIN}/answer/${"a".repeat(64)}`;
let script;

before(async () => {
  const { outputFiles } = await build({ ...common, entryPoints: ["src/page/offline.ts"], format: "iife", write: false });
  script = outputFiles[0].text;
});

/** A worker whose cache takes what `room` allows, and whose network is `fetch`. */
function worker(fetch, room = () => true, kept = new Map()) {
  const listeners = {};
  const bare = (url) => url.split("?")[0];
  const cache = {
    match: async ({ url }, { ignoreSearch } = {}) =>
      [...kept].find(([name]) => name === url || (ignoreSearch && bare(name) === bare(url)))?.[1].clone(),
    delete: async ({ url }) => [...kept.keys()].forEach((name) => bare(name) === bare(url) && kept.delete(name)),
    put: async ({ url }, answer) => {
      if (!room(url)) throw new DOMException("full", "QuotaExceededError");
      kept.set(url, answer);
    },
  };
  const self = {
    location: new URL(ORIGIN),
    addEventListener: (type, listener) => (listeners[type] = listener),
    clients: { matchAll: async () => [] },
  };
  const caches = { open: async () => cache, keys: async () => [] };
  vm.runInNewContext(script, {
    self, caches, fetch, URL, Response, setTimeout, TextEncoder, TextDecoder, Uint8Array, ArrayBuffer, crypto, console,
    Date: { now: () => 1000 * (NOW + 60) }, indexedDB, IDBKeyRange, DOMException, AbortSignal, Headers, BigUint64Array,
  });
  const asked = async (url, mode = "navigate") => {
    let answer;
    listeners.fetch({ request: { url, mode, method: "GET" }, respondWith: (found) => (answer = found) });
    return answer && (await answer).text();
  };
  /** Whatever comes of a message of a page. */
  asked.told = async (data) => {
    let work;
    listeners.message({ data, waitUntil: (found) => (work = found) });
    await work;
  };
  return asked;
}

test("what cannot be kept is shown all the same", async () => {
  const asked = worker(async ({ url }) => new Response(`new ${url}`), () => false);
  for (const url of [PAGE, `${ORIGIN}/v1/surveys/${"a".repeat(64)}`, `${ORIGIN}/assets/survey.js?v=1`]) {
    assert.equal(await asked(url), `new ${url}`);
  }
});

test("a page is asked for again whatever is behind its address; without a network it is the one before", async () => {
  let network = true;
  let visits = 0;
  const asked = worker(async () => {
    if (!network) throw new TypeError("no network");
    return new Response(`visit ${++visits}`);
  });
  assert.equal(await asked(`${PAGE}?v=1`), "visit 1");
  assert.equal(await asked(`${PAGE}?v=1`), "visit 2");
  network = false;
  assert.equal(await asked(`${PAGE}?v=1`), "visit 2");
  assert.match(await asked(`${ORIGIN}/answer/${"b".repeat(64)}`), /no network.*Nothing was sent/s);
});

test("keys, reports and whatever is elsewhere are not its business", async () => {
  const asked = worker(async () => new Response("answered by the worker"));
  for (const url of [
    "https://shuffler.example/v1/keys",
    `https://shuffler.example/v1/surveys/${"a".repeat(64)}/keys/analyzer`,
    `https://shuffler.example/v1/surveys/${"a".repeat(64)}`,
    `${ORIGIN}/v1/keys`,
    `${ORIGIN}/dashboard`,
  ]) {
    assert.equal(await asked(url, "cors"), undefined, url);
  }
});

test("an older script goes when a newer one comes", async () => {
  const asked = worker(async ({ url }) => new Response(`${url} at ${performance.now()}`));
  const old = `${ORIGIN}/assets/survey.js?v=1`;
  const first = await asked(old, "no-cors");
  assert.equal(await asked(old, "no-cors"), first);
  await asked(`${ORIGIN}/assets/survey.js?v=2`, "no-cors");
  assert.notEqual(await asked(old, "no-cors"), first);
});

test("a survey is kept, and taken from what is kept, only if it is the one of its name", async () => {
  const { id, bytes } = await Services.open();
  const url = `${ORIGIN}/v1/surveys/${id}`;
  const text = new TextDecoder().decode(bytes);
  const kept = new Map();
  let served = "another survey";
  const asked = worker(async () => new Response(served), () => true, kept);
  assert.equal(await asked(url, "cors"), "another survey"); // which the client refuses
  assert.equal(kept.size, 0);
  served = text;
  assert.equal(await asked(url, "cors"), text);
  served = "another survey";
  assert.equal(await asked(url, "cors"), text);
  kept.set(url, new Response("poisoned"));
  served = text;
  assert.equal(await asked(url, "cors"), text);
  assert.equal(await kept.get(url).clone().text(), text);
});

test("a page lets it send what waits of other surveys", async () => {
  const services = await Services.open();
  const client = await services.open({ name: "shoal" }); // as a page opens it
  services.answers["GET /v1/keys"] = () => Promise.reject(new TypeError("no network"));
  await client.report(await services.survey(client), "answer 7");
  delete services.answers["GET /v1/keys"];
  const asked = worker(services.fetch);
  await asked.told(services.id);
  assert.equal(await client.pending(), 1);
  await asked.told("0".repeat(64));
  assert.equal(await client.pending(), 0);
  client.close();
});

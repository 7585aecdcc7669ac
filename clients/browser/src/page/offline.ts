/**
 * The service worker of the survey pages. It keeps a page and all that it needs, so that it opens
 * without a network, and sends what waits once there is one, even when the page is closed. It asks
 * for nothing that the page did not ask for.
 */

import { sha256 } from "../bytes.js";
import { ShoalClient } from "../index.js";
import { CACHE, SYNC } from "./serving.js";

interface Extended extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Fetching extends Extended {
  readonly request: Request;
  respondWith(answer: Promise<Response>): void;
}
interface Worker {
  readonly location: Location;
  readonly clients: {
    claim(): Promise<void>;
    matchAll(): Promise<readonly { postMessage(message: unknown): void }[]>;
  };
  skipWaiting(): Promise<void>;
  addEventListener(type: "install" | "activate", listener: (event: Extended) => void): void;
  addEventListener(type: "fetch", listener: (event: Fetching) => void): void;
  addEventListener(type: "message", listener: (event: Extended & { data: unknown }) => void): void;
  addEventListener(type: "sync", listener: (event: Extended & { tag: string }) => void): void;
}

const worker = self as unknown as Worker;
const PATIENCE = 4000; // milliseconds that a network may take where something is kept
const NAMED = /^\/v1\/surveys\/([0-9a-f]{64})$/;
const ASSET = /^\/assets\//;
const CHANGES = /^\/answer\/[0-9a-f]{64}$|^\/v1\/surveys\/[0-9a-f]{64}\/promise$/;

worker.addEventListener("install", (event) => event.waitUntil(worker.skipWaiting()));
worker.addEventListener("activate", (event) => event.waitUntil(begin()));
worker.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  const url = new URL(request.url);
  const own = url.origin === worker.location.origin;
  const fixed = own && (NAMED.test(url.pathname) || (ASSET.test(url.pathname) && url.searchParams.has("v")));
  // Keys are none of it: the client keeps them for as long as they may be, and an older list that
  // is taken for a new one would be sealed for after its keys were replaced.
  if (fixed) event.respondWith(keptFirst(request));
  else if (own && CHANGES.test(url.pathname)) event.respondWith(networkFirst(request));
});
worker.addEventListener("sync", (event) => {
  if (event.tag === SYNC) event.waitUntil(flushAll());
});
worker.addEventListener("message", (event) => event.waitUntil(flush(false, (survey) => survey !== event.data)));

async function begin(): Promise<void> {
  const old = (await caches.keys()).filter((name) => name.startsWith("shoal-page-") && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
  await worker.clients.claim();
}

/** What never changes under its address. */
async function keptFirst(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request);
  return kept && (await isNamed(request, kept)) ? kept : keeping(cache, request);
}

/** Whether this is what its address names, where that is a hash. */
async function isNamed({ url }: Request, answer: Response): Promise<boolean> {
  const [, name] = NAMED.exec(new URL(url).pathname) ?? [];
  return !name || name === (await sha256(new Uint8Array(await answer.clone().arrayBuffer())));
}

/** The newest there is; what was kept, if the network does not answer soon. */
async function networkFirst(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  const page = request.mode === "navigate";
  const kept = await cache.match(request, { ignoreVary: true, ignoreSearch: page });
  const fresh = keeping(cache, request);
  if (kept === undefined)
    return fresh.catch(() => (page ? notKept() : Response.error()));
  const late = new Promise<Response>((resolve) => setTimeout(() => resolve(kept), PATIENCE));
  return Promise.race([fresh.catch(() => kept), late]);
}

/** What is fetched is kept, if there is room: without it, it is there for this time. */
async function keeping(cache: Cache, request: Request): Promise<Response> {
  const answer = await fetch(request);
  if (answer.ok) await put(cache, request, answer.clone()).catch(() => undefined);
  return answer;
}

async function put(cache: Cache, request: Request, answer: Response): Promise<void> {
  if (!(await isNamed(request, answer))) return; // the client says what is wrong with it
  const older = ASSET.test(new URL(request.url).pathname);
  if (older) await cache.delete(request, { ignoreSearch: true });
  await cache.put(request, answer);
}

function notKept(): Response {
  const text =
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>No network</title>' +
    '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">' +
    "<h1>There is no network</h1><p>This survey was not opened on this device before, so it cannot " +
    "be shown now. Nothing was sent.</p></html>";
  return new Response(text, { status: 503, headers: { "Content-Type": "text/html; charset=utf-8" } });
}

/** Fails while something is left, so that the browser asks again. */
async function flushAll(): Promise<void> {
  if ((await flush(true)) > 0) throw new Error("still waiting");
}

/** Sends the same bytes; how many reports still wait. */
async function flush(everything: boolean, wanted?: (survey: string) => boolean): Promise<number> {
  const client = await ShoalClient.open();
  try {
    const outcomes = await client.flush(everything, wanted);
    if (outcomes.length) for (const page of await worker.clients.matchAll()) page.postMessage(outcomes);
    return await client.pending();
  } finally {
    client.close();
  }
}

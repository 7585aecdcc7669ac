/** The service worker seen from the page: begin it, give it what to keep, ask it to send later. */

import type { Outcome, Survey } from "../index.js";

export const CACHE = "shoal-page-1";
export const SYNC = "shoal-outbox";

interface Syncing {
  readonly sync?: { register(tag: string): Promise<void> };
}

/** Registers the worker; `told` hears what became of reports that it has sent. */
export function serve(worker: string, told: (outcomes: readonly Outcome[]) => void): void {
  const workers = navigator.serviceWorker;
  if (!workers) return;
  workers.addEventListener("message", ({ data }) => told(data as Outcome[]));
  workers.register(worker).catch(() => undefined); // the page works without it while online
}

/** Lets the worker send what waits of other surveys, whose shufflers this page may not ask. */
export function sendOthers(survey: string): void {
  navigator.serviceWorker?.ready.then(({ active }) => active?.postMessage(survey)).catch(() => undefined);
}

/** Whether a page, or the worker, is about to send a report of this survey: each holds a lock. */
export async function sending(survey: string): Promise<boolean> {
  const found = await navigator.locks?.query();
  return found?.held?.some(({ name }) => name?.includes(survey)) ?? true;
}

let persisting = false;

/** Asks the browser, once, not to delete what this site has stored when room is short. */
export function persist(): void {
  if (persisting) return;
  persisting = true;
  // Some browsers ask the person, so nobody waits for it.
  navigator.storage?.persist?.().catch(() => undefined);
}

/** Keeps this page and all that it needs for when there is no network. */
export function keep(base: string, { id, bytes }: Survey): void {
  if (!globalThis.caches || !navigator.serviceWorker) return;
  const survey = `${base}/v1/surveys/${id}`;
  const parts = [...document.querySelectorAll<HTMLElement>("script[src], link[rel=stylesheet]")];
  const files = parts.map((part) => part.getAttribute("src") ?? part.getAttribute("href") ?? "");
  const needed = [location.pathname, `${survey}/promise`, ...files];
  const missing = async (): Promise<void> => {
    const cache = await caches.open(CACHE);
    // As it was read: what is asked for once more may be something else.
    await cache.put(survey, new Response(bytes.slice(), { headers: { "Content-Type": "application/json" } }));
    for (const url of needed) if (!(await cache.match(url))) await cache.add(url);
  };
  missing().catch(() => undefined);
}

/** Asks the browser to let the worker send when there is a network again. */
export function syncLater(): void {
  navigator.serviceWorker
    ?.getRegistration()
    .then((found) => (found as (ServiceWorkerRegistration & Syncing) | undefined)?.sync?.register(SYNC))
    .catch(() => undefined);
}

/** Removes the worker and all that was kept for it. */
export async function unserve(): Promise<void> {
  await globalThis.caches?.delete(CACHE);
  const found = await navigator.serviceWorker?.getRegistration();
  if (found?.scope.endsWith("/answer/")) await found.unregister();
}

/** What goes over the network, and what an answer says. Nothing tells who asks. */

import { isFields } from "./canonical.js";
import type { CodeProblem } from "./types.js";

const TIMEOUT = 20_000; // milliseconds
const RESEAL = /^(unknown|expired|outdated|pending)_key$/;
const CODE = /^code_(spent|unknown|revoked)$/;
const INVITED_ANEW = 3600; // seconds: whoever invites is asked first
const TAKEN_NOTHING = /^4(0[03458]|1[135]|2[29])$/; // statuses
const TRY_LATER = /^4(0[348]|29)$/;

/** An answer; `status` 0: there was none. */
export interface Reply {
  readonly status: number;
  readonly body: Uint8Array;
  readonly headers: { get(name: string): string | null };
}

/** Why something did not work, that may work later; `unsent`: it certainly did not arrive. */
export class Later extends Error {
  constructor(
    message: string,
    readonly unsent = true,
    readonly seconds = 0,
  ) {
    super(message);
  }
}

/** The code of an invitation was refused: the report waits for another one. */
export class Unadmitted extends Later {
  constructor(
    message: string,
    readonly problem: CodeProblem,
  ) {
    super(message, true, INVITED_ANEW);
  }
}

/** It was refused for good. */
export class Never extends Error {}

/** The shuffler wants the same message sealed with another key. */
export class Reseal extends Error {}

/** GET, or POST if there is a body. */
export async function ask(fetcher: typeof fetch, url: string, body?: Uint8Array): Promise<Reply> {
  try {
    const response = await fetcher(url, {
      ...(body && { method: "POST", body: body as BufferSource, headers: { "content-type": "application/octet-stream" } }),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(TIMEOUT),
    });
    return { status: response.status, headers: response.headers, body: new Uint8Array(await response.arrayBuffer()) };
  } catch {
    return { status: 0, headers: new Headers(), body: new Uint8Array() };
  }
}

function json(body: Uint8Array): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(new TextDecoder().decode(body));
    return isFields(found) ? found : {};
  } catch {
    return {};
  }
}

/** Text of a stranger, short and on one line. */
const plain = (value: unknown): string =>
  typeof value === "string" ? value.slice(0, 300).replace(/[\p{C}\p{Z}]+/gu, " ") : "";

/** The sentence of a problem document, or the status. */
export function problem({ status, body }: Reply): string {
  if (!status) return "there is no connection";
  const { detail, title } = json(body);
  const told = plain(detail) || plain(title);
  return told ? `${told} (status ${status})` : `status ${status}`;
}

const seconds = (value: string | null): number => (/^\d{1,9}$/.test(value ?? "") ? Number(value) : 0);

export const retryAfter = ({ headers }: Reply): number => seconds(headers.get("retry-after"));

/** Seconds for which an answer may be kept (Cache-Control). */
export function maxAge({ headers }: Reply): number {
  const told = (headers.get("cache-control") ?? "").toLowerCase();
  return /no-store|no-cache/.test(told) ? 0 : seconds(/max-age=(\d+)/.exec(told)?.[1] ?? null);
}

function admitted(why: string, problem: string): void {
  if (CODE.test(problem)) throw new Unadmitted(why, problem as CodeProblem);
}

/** What a shuffler's answer says about one report: nothing if it was taken. */
export function taken(reply: Reply): void {
  const { status } = reply;
  if (status === 202) {
    const { reports, refused = [] } = json(reply.body);
    if (reports === 1 && Array.isArray(refused) && refused.every((item) => isFields(item) && item.index === 0)) {
      if (!refused.length) return;
      const reasons = refused.map(({ reason }) => plain(reason));
      admitted(reasons[0]!, reasons[0]!);
      throw new (reasons.every((reason) => RESEAL.test(reason)) ? Reseal : Never)(reasons[0]);
    }
  }
  const why = problem(reply);
  if (status === 403) admitted(why, plain(json(reply.body).type).replace("urn:shoal:problem:", ""));
  const later = TRY_LATER.test(`${status}`);
  if (TAKEN_NOTHING.test(`${status}`) && !later) throw new Never(why);
  throw new Later(why, later, retryAfter(reply));
}

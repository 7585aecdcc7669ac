/** What the outbox holds: reports on their way, what surveys have cost, and what became of each. */

import { sha256, type Bytes } from "./bytes.js";
import type { Route } from "./keys.js";
import type { CodeProblem, Entry, Outcome } from "./types.js";

export const LONGEST_WAIT = 3600; // seconds

/** What became of a report; empty while it waits. */
export type Ending = "" | "delivered" | "abstained" | "refused" | "lost" | "expired" | "forgotten";

/** A report on its way. `doubt` counts the tries of which nobody knows whether they arrived. */
export interface Row {
  key: string;
  survey: string;
  occasion: number;
  ending: Ending;
  messages: Bytes;
  /** Before it is sealed: as many zeros, so that there is room for it later. */
  sealed: Bytes;
  /** What stands beside it, of an invitation; empty where anybody may answer. */
  code: Bytes;
  /** Why the shuffler refused that, at the last try. */
  refusal: CodeProblem | "";
  keys: string;
  doubt: number;
  waits: number;
  due: number;
  /** Since when the survey is over, as far as this device knows; 0 if it is not. */
  over: number;
}

/** What a survey has cost, and the way of its reports. */
export interface Price extends Entry {
  key: string;
  route: Route;
}

const ENDED: Record<string, string> = {
  refused: "the shuffler refused it",
  lost: "its key was deleted, and it may have arrived before",
  expired: "the survey was over before it could be delivered",
  forgotten: "it was deleted when you opted out",
};

const STATES: Record<string, Outcome["state"]> = { "": "waiting", delivered: "sent", abstained: "abstained" };

export const NOTHING: Bytes = new Uint8Array();

/** Why a report waits that is not sent any more, by the clock of this device. */
export const OVER = "the survey is over by this device's clock; if the clock is right, the report is deleted in a day";

/** Whether it may not leave yet; further off than any wait, it was postponed while the clock was fast. */
export const waits = ({ due }: Row, now: number): boolean => due > now && due <= now + LONGEST_WAIT;

export const wiped = (row: Row, ending: Ending): Row => ({
  ...row,
  ending,
  messages: NOTHING,
  sealed: NOTHING,
  code: NOTHING,
  refusal: "",
});

export async function outcomeOf(row: Row, again: boolean): Promise<Outcome> {
  // Rows that an older client wrote have no code.
  const { survey, occasion, ending, keys, sealed, code = NOTHING, refusal = "", due } = row;
  return {
    state: STATES[ending] ?? "given-up",
    survey,
    occasion,
    digest: keys && sealed.length ? await sha256(sealed) : "",
    bytes: sealed.length + code.length,
    again,
    due: ending ? 0 : due,
    reason: ENDED[ending] ?? "",
    refusal,
  };
}

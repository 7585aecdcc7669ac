/** The browser client of Shoal. */

export { ShoalClient } from "./client.js";
export { ShoalError, type ErrorKind } from "./errors.js";
export type {
  Checked,
  Entry,
  Options,
  Outcome,
  OutcomeState,
  Party,
  Policy,
  Survey,
} from "./types.js";

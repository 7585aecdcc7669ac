/** The browser client of Shoal. */

export { ShoalClient } from "./client.js";
export { ShoalError, type ErrorKind } from "./errors.js";
export type {
  Admission,
  Checked,
  CodeProblem,
  Entry,
  Options,
  Outcome,
  OutcomeState,
  Party,
  Policy,
  Reporting,
  Survey,
} from "./types.js";

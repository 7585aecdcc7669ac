/** The browser client of Shoal. */

export { ShoalClient } from "./client.js";
export { ShoalError, type ErrorKind } from "./errors.js";
export type {
  Admission,
  Answer,
  Checked,
  CodeProblem,
  Entry,
  One,
  Options,
  Outcome,
  OutcomeState,
  Party,
  Policy,
  Question,
  Reporting,
  Survey,
} from "./types.js";

/** What the client refuses, and what it could not do: always one plain sentence for the person. */

export type ErrorKind =
  | "policy"
  | "expired"
  | "not-started"
  | "tampered"
  | "unsupported"
  | "storage"
  | "keys"
  | "refused"
  | "network"
  | "used-up"
  | "invitation";

export class ShoalError extends Error {
  /** `sent`: something of this report has, or may have, left the device. */
  constructor(
    readonly kind: ErrorKind,
    message: string,
    readonly sent = false,
  ) {
    super(sent ? message : `${message} Nothing was sent.`);
    this.name = "ShoalError";
  }
}

/** The same, of a report that may have left the device before. */
export const afterSending = ({ kind, message }: ShoalError): ShoalError =>
  new ShoalError(kind, message.replace(" Nothing was sent.", ""), true);

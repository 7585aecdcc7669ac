/** The shapes that callers see. */

/** What a person allows, whatever a survey says. */
export interface Policy {
  /** ε₀ of a person's reports together, if everybody else colludes. */
  localEpsilon: number;
  /** ε that the survey promises, and that this device could prove. */
  epsilon: number;
  /** δ of whoever is seen to take part. */
  delta: number;
  /** The fewest reports of a batch. */
  minimum: number;
  totalEpsilon: number;
  totalDelta: number;
  totalLocalEpsilon: number;
  /** The only machines that may be asked and answered; null is any. */
  hosts: readonly string[] | null;
  /** Refuse surveys that anybody may answer, whose crowd is assumed and not checked. */
  requireAdmission: boolean;
}

/**
 * Who may report: anybody, or so many people who were invited. `dishonest` of them may follow no
 * protocol: people, or in early surveys, below 1, a fraction of the reports.
 */
export type Admission =
  | { readonly kind: "open"; readonly dishonest: number }
  | { readonly kind: "invited"; readonly dishonest: number; readonly entitled: number };

/** Why the code of an invitation was refused: another report came with it, the shuffler does not know
 *  it, or it counts no more. */
export type CodeProblem = "code_spent" | "code_unknown" | "code_revoked";

/** A party of a survey. */
export interface Party {
  readonly url: string;
  readonly fingerprint: string;
}

/** One of a survey's questions. */
export interface Question {
  /** What programs call it. */
  readonly name: string;
  readonly question: string;
  /** Whether nobody may skip it. */
  readonly required: boolean;
  /** The labels of a mechanism for answers; empty for numbers. The last one is that of whoever skips
   *  the question, if that may be. */
  readonly answers: readonly string[];
  /** What is asked about the groups that answers are counted by; empty if they are not. */
  readonly by: string;
  readonly groups: readonly string[];
  /** The bounds of a mechanism for numbers, which has to be answered. */
  readonly range: readonly [number, number] | null;
  /** The name of the mechanism. */
  readonly mechanism: string;
}

/** An answer to a question: a text, a number, or a group and a text where answers are by groups. Of
 *  several questions, null skips either. */
export type One = string | number | readonly [string | null, string | null];

/** An answer to the only question, or to several by their names; null or nothing skips one. */
export type Answer = One | { readonly [name: string]: One | null };

/** A survey that was read and checked. Its fields are those of its configuration. */
export interface Survey {
  readonly id: string;
  readonly bytes: Uint8Array;
  readonly name: string;
  /** The only question, or what several are called together. */
  readonly question: string;
  readonly purpose: string;
  readonly questions: readonly Question[];
  /** Of the only question, as are these; of several there are none here. */
  readonly answers: readonly string[];
  readonly range: readonly [number, number] | null;
  readonly mechanism: string;
  readonly minimum: number;
  readonly target: number;
  readonly epsilon: number;
  readonly delta: number;
  readonly reportsPerPerson: number;
  readonly admission: Admission;
  readonly participation: number;
  readonly notBefore: number;
  readonly notAfter: number;
  readonly shuffler: Party;
  readonly analyzer: Party;
  /** ε₀ of one report, from the numbers that are really drawn with; Infinity if there is none. */
  readonly localEpsilon: number;
  /** Bytes of every report. */
  readonly reportBytes: number;
}

/** What an answer would cost, and what of that this device could work out by itself. */
export interface Checked {
  /** ε over its life as it is counted: what this device could prove, or, if nothing, what is promised. */
  readonly epsilon: number;
  readonly delta: number;
  /** ε₀ of all reports of a person together; Infinity if only the crowd hides an answer. */
  readonly localEpsilon: number;
  readonly minimum: number;
  /** People among whom each report hides in the smallest batch, the person included. */
  readonly crowd: number;
  /** Whether this device could prove the promise by itself, to two parts in a thousand. */
  readonly verified: boolean;
  /** ε at the smallest batch that this device could prove; Infinity if none (several messages). */
  readonly verifiedEpsilon: number;
  /** A sentence if it is not verified, else empty. */
  readonly reason: string;
}

export type OutcomeState = "sent" | "waiting" | "abstained" | "given-up";

/** What became of a report. */
export interface Outcome {
  readonly state: OutcomeState;
  readonly survey: string;
  readonly occasion: number;
  /** SHA-256 of the sealed bytes in hexadecimal digits; empty if there are none any more. */
  readonly digest: string;
  /** How many bytes leave the device, the code of an invitation among them. */
  readonly bytes: number;
  /** It had been made before, and was not made a second time. */
  readonly again: boolean;
  /** Seconds since 1970 before which it is not tried again; 0 unless it waits for a moment. */
  readonly due: number;
  /** Why it waits, or was given up; else empty. */
  readonly reason: string;
  /** Why its code was refused, while it waits for another invitation; else empty. */
  readonly refusal: CodeProblem | "";
}

/** Which of a person's reports it is, from 1 on, and what the person was handed to be admitted. */
export interface Reporting {
  occasion?: number;
  /** 28 letters and digits, or the link that ends with them; kept until the report has arrived. */
  invitation?: string;
}

/** What one survey has cost. */
export interface Entry {
  readonly survey: string;
  readonly name: string;
  readonly epsilon: number;
  readonly delta: number;
  readonly localEpsilon: number;
  readonly reports: number;
  readonly allowed: number;
  readonly waiting: number;
  /** Why the code of one that waits was refused; else empty. */
  readonly refusal: CodeProblem | "";
}

export interface Options {
  /** Name of the store in IndexedDB. */
  name?: string;
  policy?: Partial<Policy>;
  fetch?: typeof fetch;
  /** Seconds since 1970. */
  now?: () => number;
}

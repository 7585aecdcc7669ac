/** What a person is told. */

import type { Checked, CodeProblem, ErrorKind, ShoalError, Survey } from "../index.js";

export const LOADING = "Getting ready…";
export const SENDING = "Sending…";
export const SENT = "Sent. Thank you.";
export const TITLES: Readonly<Record<ErrorKind, string>> = {
  policy: "This page does not let you answer this survey.",
  expired: "This survey is over.",
  "not-started": "This survey has not begun.",
  tampered: "This is not the survey that it claims to be.",
  unsupported: "This browser cannot answer safely.",
  storage: "This device cannot keep your answer.",
  keys: "The operators' keys are not what the survey says.",
  refused: "The report was refused.",
  network: "The survey cannot be reached.",
  "used-up": "You have answered already.",
  invitation: "Your invitation is missing or mistyped.",
};
export const DEFECT = "Something went wrong in this page. Nothing more is sent.";
export const CROWD_ONLY =
  "Only the crowd hides your answer to this survey: if both operators work together, they learn it. " +
  "This page does not let you answer unless you allow that.";
/** A crowd that is too small for the page's own limits. */
export const fewPeople = (minimum: number): string =>
  `This survey may open batches of only ${minimum} reports. In so small a crowd, little but the randomness in your own ` +
  "report protects you. This page does not let you answer unless you allow that.";
export const INVITATION = "Your invitation: 28 letters and digits";
export const INVITED =
  "You are invited: your invitation was in the link. It goes to the shuffler with your sealed answer, and to nobody else.";
export const CUT_OFF =
  "The invitation in the link is incomplete. Type it in below the answers, as you received it, or open the complete link. " +
  "Nothing was sent.";
export const MAY_SKIP = "You may skip this question.";
export const ODDS = "What leaves your device for this question";
/** The answer of those who skip a question, as people read it. */
export const SKIPPED = "I prefer not to say";
export const NO_GROUP = "Choose your group, too. Nothing was sent.";
export const NO_CHOICE = "Choose an answer first. Nothing was sent.";
export const FORGET =
  "This deletes a report that still waits to be sent, and this device takes part in no survey here " +
  "until you say so. What was sent stays sent. This device still remembers that you answered a survey, " +
  "without the answer, so that you do not answer it twice.";
export const OPTED_OUT = [
  "This device does not take part.",
  "You chose that. No report waits here, and nothing is sent until you take part again.",
];

/** What `forget` has done; `unsent` is whether no try to send what waited was ever made. */
export function forgotten(waited: boolean, unsent: boolean): string {
  if (!waited) return "Done. No report was waiting here; what was kept for this page is deleted.";
  return unsent
    ? "Deleted. Your report was still waiting, and nothing was sent."
    : "Deleted. Your report was still waiting and is not sent any more. If an earlier attempt " +
        "arrived without this device learning of it, that one counts.";
}

export const host = (url: string): string => new URL(url).host;

/** A number as it is shown: never smaller than it is, with the digits of the page's own sentences. */
export function up(value: number, digits = 5): string {
  if (!Number.isFinite(value) || value === 0) return String(value);
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) + 1 - digits);
  const shown = Math.ceil(value / unit - 1e-9) * unit;
  return String(Number(shown.toPrecision(digits)));
}

/** A time as people say it, as the page's own sentences do. */
export function day(seconds: number): string {
  const when = new Date(Math.min(seconds, 2e11) * 1000);
  const date = { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" } as const;
  return `${when.toLocaleDateString("en-GB", date)}, ${when.toISOString().slice(-13, -8)} (UTC)`;
}

/** Why it cannot be answered, for a person who has set no limits: those of the page refuse it. */
export function refusal({ kind, message }: ShoalError, survey?: Survey): string[] {
  const nothing = /Nothing was sent\.$/.exec(message)?.[0] ?? "";
  if (survey && kind === "expired") return [`It ended on ${day(survey.notAfter)}.`, nothing];
  if (survey && kind === "not-started") return [`It begins on ${day(survey.notBefore)}.`, nothing];
  if (kind !== "policy") return [message];
  const why = message
    .replace(/^This survey/, "it")
    .replace("you allow", "the page allows")
    .replace("with your other surveys", "with the others that were answered on this device")
    .replaceAll("epsilon", "ε")
    .replaceAll("delta", "δ");
  const weaker = /[εδ]/.test(why) ? " The larger ε or δ, the weaker the protection." : "";
  const limits = "The page has limits that protect people who answer. They refuse this survey:";
  return [`${limits} ${why.slice(0, why.length - nothing.length).trim()}${weaker}`, nothing];
}

export const noNumber = ([low, high]: readonly [number, number]): string =>
  `Enter a number from ${low} to ${high}. Nothing was sent.`;

export function sent(survey: Survey, used: number): string[] {
  const left = survey.reportsPerPerson - used;
  const more = left > 0 ? ` You may answer ${left === 1 ? "once" : `${left} times`} more.` : "";
  return [
    SENT,
    `Your answer left this device only as described above.${more}`,
  ];
}

/** When results appear, and where, if nobody has told an address. */
export function results({ minimum, analyzer }: Survey): [string, string] {
  const when = `Results appear once at least ${minimum.toLocaleString("en")} reports are together and mixed, `;
  return [when, `from the operator of ${host(analyzer.url)}, the analyzer`];
}

export function already(survey: Survey): string[] {
  const coin = survey.participation < 1 ? ", or this device's coin decided that it does not take part" : "";
  return [
    "You have answered on this device already.",
    "A second report would reveal more about you, so none is made. The first was sent, unless it was " +
      `deleted here before${coin}.`,
  ];
}

export const GONE = [
  "Your report no longer waits here.",
  "It was sent, or deleted, from another page of this site.",
];

export const ABSTAINED = [
  "This device does not take part this time.",
  "Its coin decided so: it tosses one for everybody's protection. Nothing was sent, and there is " +
    "nothing more to do.",
];

export const waiting = (reason: string): string[] => [
  "Waiting for the network.",
  "Your answer is kept on this device, already randomized, and is sent as soon as that " +
    `is possible. You may close this page.${reason ? ` Reason: ${reason}.` : ""}`,
];

const UNADMITTED: Readonly<Record<CodeProblem, readonly [string, string]>> = {
  code_spent: [
    "This invitation was used.",
    "A report came with it before, and an invitation counts once. If that was you, on another device or in another " +
      "browser, there is nothing more to do: your first answer counts, and this one does not.",
  ],
  code_unknown: [
    "This survey does not know this invitation.",
    "It may belong to another survey, or the survey's operator has not registered it yet.",
  ],
  code_revoked: ["This invitation is no longer valid.", "It was revoked, or replaced by another one."],
};

/** Why a report waits for another invitation. */
export const unadmitted = (refusal: CodeProblem): string[] => [
  ...UNADMITTED[refusal],
  "Your answer is kept on this device, already randomized, and has not counted. To send it, get another invitation " +
    "from the people who invited you:",
];

export const givenUp = (reason: string): string[] => [
  "Your report was given up.",
  `${reason ? `${reason[0]!.toUpperCase()}${reason.slice(1)}. ` : ""}It is not sent again: a second report would reveal more than was promised.`,
];

/** What the browser's own bound says of the promise, which it may pass by what `verified` allows. */
function agreeing({ epsilon }: Survey, { verifiedEpsilon: own }: Checked): string {
  const promise = up(epsilon, 7);
  const short = up(own, 4);
  const shown = Number(short) <= epsilon ? short : up(own, 7);
  if (own <= epsilon) return `ε = ${shown}, and at most ${promise} is promised`;
  return `it agrees with the promised ε of at most ${promise}`;
}

/** How closely, for those who want to know. */
export function ownBound({ epsilon }: Survey, { verified, verifiedEpsilon: own }: Checked): string {
  if (!verified || own <= epsilon) return "";
  return (
    `Your browser's own bound on ε is rounded up: it is ${up(own, 6)}, and ` +
    `agrees with the promised ${up(epsilon, 7)} to two parts in a thousand.`
  );
}

/** Who has worked out what is promised. */
export function checkedBy(survey: Survey, checked: Checked): string {
  const alone = Number.isFinite(checked.localEpsilon)
    ? ` Your browser has computed ε0 = ${up(checked.localEpsilon)} from the odds in the survey.`
    : "";
  if (checked.verified)
    return (
      "Checked by your browser: the survey matches its id, and your browser has itself computed ε at " +
      `the smallest crowd: ${agreeing(survey, checked)}.${alone}`
    );
  const least = Number.isFinite(checked.verifiedEpsilon)
    ? `All that your browser can prove by itself is an ε of at most ${up(checked.verifiedEpsilon)}, and that is what it counts as your cost.`
    : checked.reason;
  return (
    "Your browser has checked that the survey matches its id, but not its ε, which is claimed by " +
    `${host(survey.analyzer.url)}, the analyzer. ${least}${alone}`
  );
}

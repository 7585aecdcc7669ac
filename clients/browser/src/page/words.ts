/** What a person is told. */

import type { Checked, ErrorKind, Survey } from "../index.js";

export const LOADING = "Getting ready…";
export const SENDING = "Sending…";
export const TITLES: Readonly<Record<ErrorKind, string>> = {
  policy: "This survey asks for more than this device allows.",
  expired: "This survey is over.",
  "not-started": "This survey has not begun.",
  tampered: "This is not the survey that it claims to be.",
  unsupported: "This browser cannot answer safely.",
  storage: "This device cannot keep your answer.",
  keys: "The operators' keys are not what the survey says.",
  refused: "The report was refused.",
  network: "The survey cannot be reached now.",
  "used-up": "You have answered already.",
};
export const DEFECT = "Something went wrong in this page. Nothing more is sent.";
export const CROWD_ONLY =
  "Only the crowd hides an answer to this survey: if both operators work together, they learn it. " +
  "This device does not allow that unless you do.";
export const NO_CHOICE = "Choose an answer first. Nothing was sent.";
export const FORGET =
  "A report that waits is deleted and never sent, and this device answers no more surveys here " +
  "until you say so. What was sent cannot be called back: nobody can find it in the crowd. That a " +
  "survey was answered stays noted, without the answer, so that it is not answered twice.";
export const OPTED_OUT = [
  "This device takes no part.",
  "So you have said. Nothing waits here any more, and nothing is sent until you say so.",
];

export const host = (url: string): string => new URL(url).host;

/** A number as it is shown: never smaller than it is. */
export function up(value: number): string {
  if (!Number.isFinite(value) || value === 0) return String(value);
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 2);
  const shown = Math.ceil(value / unit - 1e-9) * unit;
  return String(Number(shown.toPrecision(3)));
}

export const noNumber = ([low, high]: readonly [number, number]): string =>
  `Enter a number from ${low} to ${high}. Nothing was sent.`;

export function sent(survey: Survey, used: number): string[] {
  const left = survey.reportsPerPerson - used;
  const more = left > 0 ? ` You may answer ${left === 1 ? "once" : `${left} times`} more.` : "";
  return [
    "Sent. Thank you.",
    "Your answer left this device only as described above. It cannot be called back: nobody can " +
      `find it in the crowd.${more}`,
  ];
}

export function already(survey: Survey): string[] {
  const coin =
    survey.participation < 1 ? " It was sent, or this device's coin said that it takes no part." : "";
  return [
    "You have answered on this device already.",
    `A second report would tell more about you, so none is made.${coin}`,
  ];
}

export const GONE = [
  "Your report waits here no more.",
  "It was sent, or deleted, from another page of this site.",
];

export const ABSTAINED = [
  "This device does not take part this time.",
  "So said its coin, which it tosses for everybody's protection. Nothing was sent, and there is " +
    "nothing more to do.",
];

export const waiting = (reason: string): string[] => [
  "Waiting for the network.",
  "Your answer is kept on this device, already randomized, and is sent as it is as soon as that " +
    `is possible. You may close this page.${reason ? ` Reason: ${reason}.` : ""}`,
];

export const givenUp = (reason: string): string[] => [
  "Your report was given up.",
  `${reason ? `${reason[0]!.toUpperCase()}${reason.slice(1)}. ` : ""}It is not sent again: twice is not what was promised.`,
];

/** Who has worked out what is promised. */
export function checkedBy(survey: Survey, checked: Checked): string {
  const alone = Number.isFinite(checked.localEpsilon)
    ? ` ε0 = ${up(checked.localEpsilon)} was worked out by your browser, from the odds in the survey.`
    : "";
  if (checked.verified)
    return (
      "Checked by your browser: the survey is the one that its name says, and with the fewest " +
      `reports that are released ε is at most ${up(checked.verifiedEpsilon)}.${alone}`
    );
  const least = Number.isFinite(checked.verifiedEpsilon)
    ? `All that your browser can prove by itself is an ε of at most ${up(checked.verifiedEpsilon)}, and that is what it counts as your cost.`
    : checked.reason;
  return (
    "Your browser has checked that the survey is the one that its name says, but not its ε, which " +
    `is claimed by ${host(survey.analyzer.url)}, the analyzer. ${least}${alone}`
  );
}

/** A survey: read, checked against its name and against itself, and what it promises. */

import { crowdEpsilon, MOST_PEOPLE, type Law } from "./bound.js";
import { sha256, unhex } from "./bytes.js";
import { has, isFields, isWhole, parsed, type Fields } from "./canonical.js";
import type { Device } from "./devices.js";
import { ShoalError } from "./errors.js";
import { hostOf } from "./hosts.js";
import { deviceOf } from "./mechanisms.js";
import { LARGEST, OVERHEAD, SUITE } from "./sealing.js";
import type { Admission, Survey } from "./types.js";

const MOST_IN_A_BATCH = 1e10;
const MOST_REPORTS = 1000;
const LARGEST_LOCAL = 5; // of each of several reports
const LEAST_DELTA = 1e-30;
const LEAST = 5e-324; // above 0
const LATEST = 1e15; // seconds
const MOST_ENTITLED = 1e10; // more people than there are
const LARGEST_COUNT = 1e15;
const TOLERANCE = 1.002; // between a bound of this device and one of another
const BEYOND = 1.1; // what no other computation explains, with so many people and up to that ε₀
const LEAST_CROWD = 1000;
const TIGHT_LOCAL = 4;

const devices = new WeakMap<Survey, Device & { proved?: number }>();

/** The mechanism of a survey that was read here. */
export function deviceFor(survey: Survey): Device & { proved?: number } {
  const found = devices.get(survey);
  if (!found) throw new ShoalError("tampered", "This survey was not read by this client.");
  return found;
}

/** Text that shows something: these are spaces here or in Python. */
const isText = (value: unknown, longest = 2000): boolean =>
  typeof value === "string" && /[^\s\x1c-\x1f\x85]/.test(value) && [...value].length <= longest;

const isWithin = (value: unknown, least: number, most = 1): boolean =>
  typeof value === "number" && value >= least && value <= most;

const isParty = (value: unknown): boolean =>
  has(value, "fingerprint url") && !!hostOf(value.url) && unhex(value.fingerprint)?.length === 32;

/** Who may report: of people invited, some at least are honest. */
const isAdmission = (value: unknown): boolean =>
  isFields(value) && value.kind === "open"
    ? has(value, "dishonest kind") && isWhole(value.dishonest, 0, LARGEST_COUNT)
    : has(value, "dishonest entitled kind") &&
      isWhole(value.entitled, 1, MOST_ENTITLED) &&
      isWhole(value.dishonest, 0, value.entitled - 1);

/** The first field that cannot be right by itself; `fields` if there are others than a survey has. */
function wrongField(told: Fields): string | undefined {
  const { answers, batches, not_before } = told as {
    answers: unknown[];
    batches: Record<string, number>;
  } & Record<string, number>;
  const sound: Record<string, unknown> = {
    name: isText(told.name),
    question: isText(told.question),
    purpose: isText(told.purpose),
    answers:
      Array.isArray(answers) &&
      answers.every((answer) => isText(answer, 200)) &&
      new Set(answers).size === answers.length,
    batches:
      has(batches, "max_age minimum small target") &&
      isWhole(batches.minimum, 2) &&
      isWhole(batches.target, batches.minimum, MOST_IN_A_BATCH) &&
      isWhole(batches.max_age, 1, LATEST) &&
      ["carry", "expire"].includes(batches.small as unknown as string),
    shuffler: isParty(told.shuffler),
    analyzer: isParty(told.analyzer),
    epsilon: isWithin(told.epsilon, LEAST, Infinity),
    delta: isWithin(told.delta, LEAST_DELTA, 1 - 2 ** -53),
    participation: isWithin(told.participation, LEAST),
    reports_per_person: isWhole(told.reports_per_person, 1, MOST_REPORTS),
    not_before: isWhole(not_before),
    not_after: isWhole(told.not_after, not_before! + 1, LATEST),
    token_bytes: isWhole(told.token_bytes),
    // These are checked elsewhere.
    kind: 1,
    version: 1,
    mechanism: 1,
    sampler: 1,
    message_bytes: 1,
    slots: 1,
    suite: 1,
    ...(told.version === 1 ? { dishonest: isWithin(told.dishonest, 0) } : { admission: isAdmission(told.admission) }),
  };
  const names = Object.keys(sound);
  return has(told, names.sort().join(" ")) ? names.find((name) => !sound[name]) : "fields";
}

/** Names as they are usual here: `not_after` becomes `notAfter`. */
const renamed = (told: Fields): Fields =>
  Object.fromEntries(
    Object.entries(told).map(([name, value]) => [name.replace(/_./g, ([, letter]) => letter!.toUpperCase()), value]),
  );

/** The survey in these bytes, if it is the one of this name. */
export async function readSurvey(bytes: Uint8Array, wanted?: string): Promise<Survey> {
  const unless = (sound: unknown, why: string): void => {
    if (!sound) throw new ShoalError("tampered", `This survey is not as it was written: ${why}.`);
  };
  const right = (sound: unknown, field: string): void => unless(sound, `its ${field} cannot be right`);
  const able = (known: unknown, what: string): void => {
    if (!known) throw new ShoalError("unsupported", `This client does not know ${what}.`);
  };
  const id = await sha256(bytes);
  unless((wanted ?? id) === id, "it was changed, or it is another one than was asked for");
  const told = parsed(bytes)!;
  unless(told?.kind === "survey", "it is not canonical JSON");
  const { version, suite, answers, mechanism, slots, reports_per_person: reports } = told as Record<string, number> & Fields;
  able(version === 1 || version === 2, `surveys of version ${version}`);
  const { kind } = (told.admission ?? {}) as Fields;
  able(version === 1 || kind === "open" || kind === "invited", "how people are admitted to this survey");
  const field = wrongField(told);
  right(!field, field!);
  able((suite as unknown) === SUITE, `how to seal with ${suite}`);
  able(!told.token_bytes, "how to get the tokens that this survey needs");
  let device;
  try {
    device = await deviceOf(mechanism as unknown as Fields, told.sampler as Fields, (answers as unknown as string[]).length);
  } catch (error) {
    if (!(error instanceof RangeError || error instanceof TypeError)) throw error;
    right(false, "sampler");
  }
  able(device, "the mechanism of this survey");
  const { messageBytes, epsilon, range } = device!;
  const each = OVERHEAD + messageBytes;
  right(messageBytes === told.message_bytes && device!.slots === slots && slots! * each <= LARGEST, "slots");
  right(reports === 1 || epsilon <= LARGEST_LOCAL || epsilon === Infinity, "mechanism");
  const survey = Object.freeze({
    ...renamed(told),
    ...(told.batches as object),
    admission: (told.admission as Admission | undefined) ?? { kind: "open", dishonest: told.dishonest as number },
    id,
    bytes: bytes.slice(),
    range,
    mechanism: (mechanism as unknown as Fields).name,
    localEpsilon: epsilon,
    reportBytes: OVERHEAD + slots! * each,
  }) as unknown as Survey;
  devices.set(survey, device!);
  const { admission, minimum } = survey;
  right(crowdOf(survey) >= 1 && (admission.kind === "open" || minimum <= reports! * admission.entitled), "minimum");
  return survey;
}

/** An answer as the survey's mechanism takes it; one that cannot be used is not repeated. */
export function valueOf(survey: Survey, answer: string | number): number {
  if (survey.range) {
    const [low, high] = survey.range;
    if (typeof answer === "number" && answer >= low && answer <= high) return answer;
    throw new ShoalError("refused", `An answer to this survey is a number from ${low} to ${high}.`);
  }
  const value = survey.answers.indexOf(answer as string);
  if (value < 0) throw new ShoalError("refused", "This is not one of the survey's answers.");
  return value;
}

/** People among whom each of one person's reports hides in the smallest batch, that person included. */
export function crowdOf({ version, minimum, admission: { dishonest }, reportsPerPerson }: Survey): number {
  // R reports of each dishonest person are no crowd.
  if (version === 2) return Math.floor(Math.max(0, minimum - reportsPerPerson * dishonest) / reportsPerPerson);
  // The share as it was written: 0.1 is one tenth, not the float next to it.
  const [digits, exponent] = dishonest.toExponential().split(/\.?e/) as [string, string];
  const [whole, places = ""] = digits.split(".") as [string, string?];
  const unit = 10n ** BigInt(places.length - Number(exponent));
  const honest = (BigInt(minimum) * (unit - BigInt(whole + places))) / unit;
  return Number(honest / BigInt(reportsPerPerson));
}

/** δ of somebody who is seen to take part, never rounded up. */
export function deltaTakingPart({ delta, participation, reportsPerPerson }: Survey): number {
  const part =
    participation === 1 || reportsPerPerson === 1
      ? participation
      : Math.min(1, -Math.expm1(reportsPerPerson * Math.log1p(-participation)) * (1 + 2 ** -50));
  const largest = Math.max(delta, 0.5);
  if (delta >= largest * part) return largest;
  return part === 1 ? delta : (delta / part) * (1 - 2 ** -52);
}

/** ε of all of a person's reports at the smallest batch that this device can prove, or Infinity. */
export function provedEpsilon(survey: Survey): number {
  const device = deviceFor(survey);
  const reports = survey.reportsPerPerson;
  const each = (law: Law) => crowdEpsilon(law, crowdOf(survey), deltaTakingPart(survey) / reports);
  // Without laws there is no ε₀ either, which is Infinity then.
  return (device.proved ??=
    reports * Math.min(device.epsilon, device.laws.length ? Math.max(...device.laws.map(each)) : Infinity));
}

/**
 * Whether the promise is more than can be kept. This is said only where this device proves nearly what
 * anybody can: one report, many people, a small ε₀, and a crowd that makes half of it or less. Elsewhere
 * its grids are too coarse, and a promise that it cannot prove may be true.
 */
export function isBroken(survey: Survey): boolean {
  const { epsilon, loose } = deviceFor(survey);
  const [crowd, proved] = [crowdOf(survey), provedEpsilon(survey)];
  const near = survey.reportsPerPerson === 1 && crowd >= LEAST_CROWD && crowd <= MOST_PEOPLE && epsilon <= TIGHT_LOCAL;
  return near && !loose && proved <= epsilon / 2 && proved > survey.epsilon * BEYOND;
}

/** Whether that is the survey's promise, but for what two computations may differ by. */
export const isProved = (survey: Survey): boolean => provedEpsilon(survey) <= survey.epsilon * TOLERANCE;

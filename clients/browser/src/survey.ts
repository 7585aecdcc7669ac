/** A survey: read, checked against its name and against itself, and what it promises. */

import { crowdEpsilon, MOST_PEOPLE } from "./bound.js";
import { sha256, unhex } from "./bytes.js";
import { has, isFields, isWhole, parsed, type Fields } from "./canonical.js";
import type { composedEpsilon } from "./composition.js";
import type { Device } from "./devices.js";
import { ShoalError } from "./errors.js";
import { hostOf } from "./hosts.js";
import { deviceOf, more } from "./mechanisms.js";
import { LARGEST, OVERHEAD, SUITE } from "./sealing.js";
import type { Admission, Answer, One, Question, Survey } from "./types.js";

const MOST_IN_A_BATCH = 1e10;
const MOST_REPORTS = 1000;
const LARGEST_LOCAL = 5; // of each of several reports
const LEAST_DELTA = 1e-30;
const LEAST_COMPOSED_DELTA = 1e-9; // of several questions
const LEAST = 5e-324; // above 0
const LATEST = 1e15; // seconds
const MOST_ENTITLED = 1e10; // more people than there are
const LARGEST_COUNT = 1e15;
const TOLERANCE = 1.002; // between a bound of this device and one of another
const BEYOND = 1.1; // what no other computation explains, with so many people and up to that ε₀
const LEAST_CROWD = 1000;
const TIGHT_LOCAL = 4;

const MOST_QUESTIONS = 20;
const MOST_CELLS = 10_000; // answers of all groups together
const NONE = "(none)"; // the answer of those who skip one of several questions

/** The mechanisms of a survey that was read here, one for each question, and how several rounds compose. */
interface Known {
  readonly devices: readonly Device[];
  readonly compose: typeof composedEpsilon | undefined;
  proved?: number;
}

const read = new WeakMap<Survey, Known>();

function knownOf(survey: Survey): Known {
  const found = read.get(survey);
  if (!found) throw new ShoalError("tampered", "This survey was not read by this client.");
  return found;
}

export const devicesFor = (survey: Survey): readonly Device[] => knownOf(survey).devices;

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

const areTexts = (value: unknown, least = 0): value is string[] =>
  Array.isArray(value) &&
  value.every((text) => isText(text, 200)) &&
  new Set(value.map((text) => text.normalize().replace(/\s+/g, " ").trim())).size === value.length &&
  value.length >= least;

/** What there is of one question; its numbers are checked elsewhere. */
const soundQuestion = ({ question, answers, by, groups }: Fields): Record<string, unknown> => ({
  question: isText(question),
  answers: areTexts(answers),
  // A mechanism has every answer in every group.
  ...(groups === undefined
    ? {}
    : { by: isText(by), groups: areTexts(groups, 2) && areTexts(answers, 2) && groups.length * answers.length <= MOST_CELLS }),
  mechanism: 1,
  sampler: 1,
  message_bytes: 1,
  slots: 1,
});

/** Whether these are several questions, each with a name, and an answer, and group, for those who skip it. */
const areQuestions = (value: unknown): boolean =>
  Array.isArray(value) &&
  value.length > 1 &&
  value.length <= MOST_QUESTIONS &&
  value.every((each) => {
    if (!isFields(each)) return false;
    const ends = [each.answers, each.groups].map((texts) => (texts as unknown[] | undefined)?.at?.(-1) ?? NONE);
    const named = typeof each.name === "string" && /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}$/.test(each.name);
    return !wrongOf(each, { ...soundQuestion(each), name: named && ends.every((last) => last === NONE) });
  }) &&
  new Set(value.map(({ name }) => name)).size === value.length;

/** The first field that is not sound; `fields` if there are others. */
function wrongOf(told: Fields, sound: Record<string, unknown>): string | undefined {
  const names = Object.keys(sound);
  return has(told, names.sort().join(" ")) ? names.find((name) => !sound[name]) : "fields";
}

/** The first field that cannot be right by itself; `fields` if there are others than a survey has. */
function wrongField(told: Fields): string | undefined {
  const several = told.version === 3 && told.groups === undefined;
  const { batches, not_before } = told as { batches: Record<string, number> } & Record<string, number>;
  return wrongOf(told, {
    name: isText(told.name),
    purpose: isText(told.purpose),
    ...(several ? { questions: areQuestions(told.questions) } : soundQuestion(told)),
    batches:
      has(batches, "max_age minimum small target") &&
      isWhole(batches.minimum, 2) &&
      isWhole(batches.target, batches.minimum, MOST_IN_A_BATCH) &&
      isWhole(batches.max_age, 1, LATEST) &&
      ["carry", "expire"].includes(batches.small as unknown as string),
    shuffler: isParty(told.shuffler),
    analyzer: isParty(told.analyzer),
    epsilon: isWithin(told.epsilon, LEAST, Infinity),
    delta: isWithin(told.delta, several ? LEAST_COMPOSED_DELTA : LEAST_DELTA, 1 - 2 ** -53),
    participation: isWithin(told.participation, LEAST),
    reports_per_person: isWhole(told.reports_per_person, 1, MOST_REPORTS),
    not_before: isWhole(not_before),
    not_after: isWhole(told.not_after, not_before! + 1, LATEST),
    token_bytes: isWhole(told.token_bytes),
    // These are checked elsewhere.
    kind: 1,
    version: told.groups === undefined || told.version === 3,
    suite: 1,
    ...(told.version === 1 ? { dishonest: isWithin(told.dishonest, 0) } : { admission: isAdmission(told.admission) }),
  });
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
  unless((wanted ?? id) === id, "it was changed, or it is another survey");
  const told = parsed(bytes)!;
  unless(told?.kind === "survey", "it is not canonical JSON");
  const { version, suite, reports_per_person: reports } = told as Record<string, number> & Fields;
  able(version === 1 || version === 2 || version === 3, `surveys of version ${version}`);
  const { kind } = (told.admission ?? {}) as Fields;
  able(version === 1 || kind === "open" || kind === "invited", "how people are admitted to this survey");
  // Anything but printable ASCII: other letters, and what is escaped.
  const plain = bytes.every((byte) => byte < 127 && byte !== 92);
  const field = wrongField(told) ?? (plain && !told.questions ? undefined : (await more()).hiddenField(told));
  right(!field, field!);
  able((suite as unknown) === SUITE, `how to seal with ${suite}`);
  able(!told.token_bytes, "how to get the tokens that this survey needs");
  const several = told.questions !== undefined;
  const devices: Device[] = [];
  const questions: Question[] = [];
  let size = 0;
  for (const part of several ? (told.questions as Fields[]) : [{ ...told, name: "" } as Fields]) {
    const { name, question, answers, by = "", groups = [], mechanism, slots } = part as unknown as Question & { mechanism: Fields; slots: number };
    let device;
    try {
      device = await deviceOf(mechanism, part.sampler as Fields, answers.length * (groups.length || 1));
    } catch (error) {
      if (!(error instanceof RangeError || error instanceof TypeError)) throw error;
      right(false, "sampler");
    }
    able(device, "the mechanism of this survey");
    const { messageBytes, epsilon, range } = device!;
    size += slots * (OVERHEAD + messageBytes);
    right(messageBytes === part.message_bytes && device!.slots === slots && size <= LARGEST, "slots");
    right(!device!.absent || (reports === 1 && !several), "mechanism"); // these may not leave slots out
    right(reports! * (several ? (told.questions as Fields[]).length : 1) <= MOST_REPORTS, "reports_per_person");
    right((reports === 1 && !several) || epsilon <= LARGEST_LOCAL || epsilon === Infinity, "mechanism");
    devices.push(device!);
    questions.push({ name, question, answers, by, groups, range, mechanism: (mechanism as Fields).name as string });
  }
  const only = { question: told.name, answers: [], range: null, mechanism: "" };
  const survey = Object.freeze({
    ...renamed(told),
    ...(told.batches as object),
    admission: (told.admission as Admission | undefined) ?? { kind: "open", dishonest: told.dishonest as number },
    ...(several ? only : questions[0]),
    name: told.name,
    questions,
    id,
    bytes: bytes.slice(),
    localEpsilon: devices.reduce((sum, { epsilon }) => sum + epsilon, 0),
    reportBytes: OVERHEAD + size,
  }) as unknown as Survey;
  read.set(survey, { devices, compose: several || reports! > 1 ? (await more()).composedEpsilon : undefined });
  const { admission, minimum } = survey;
  right(crowdOf(survey) >= 1 && (admission.kind === "open" || minimum <= reports! * admission.entitled), "minimum");
  return survey;
}

/** An answer to each question as its mechanism takes it; one that cannot be used is not repeated. */
export function valuesOf({ questions }: Survey, answer: Answer): number[] {
  if (questions.length === 1) return [valueOf(questions[0]!, answer as One)];
  const given = (Object(answer) === answer ? answer : { "": 0 }) as { readonly [name: string]: One | null };
  const names = questions.map(({ name }) => name);
  if (!Object.keys(given).every((name) => names.includes(name))) {
    throw new ShoalError("refused", `This survey has several questions, to be answered by name: ${names.join(", ")}.`);
  }
  return questions.map((question) => valueOf(question, given[question.name] ?? (question.groups.length ? [null, null] : NONE)));
}

function valueOf({ name, range, answers, groups }: Question, answer: One): number {
  if (range) {
    const [low, high] = range;
    if (typeof answer === "number" && answer >= low && answer <= high) return answer;
    throw new ShoalError("refused", `An answer to this survey is a number from ${low} to ${high}.`);
  }
  const lists = groups.length ? [groups, answers] : [answers];
  const texts = [answer].flat() as (string | null)[];
  const places = lists.map((list, i) => list.indexOf(texts[i] ?? (name && NONE)));
  if (texts.length !== lists.length || places.includes(-1)) {
    throw new ShoalError("refused", "This is not one of the survey's answers.");
  }
  return places.reduce((code, place) => code * answers.length + place, 0);
}

/** People among whom each of one person's reports hides in the smallest batch, that person included. */
export function crowdOf({ version, minimum, admission: { dishonest }, reportsPerPerson }: Survey): number {
  // R reports of each dishonest person are no crowd.
  if (version > 1) return Math.floor(Math.max(0, minimum - reportsPerPerson * dishonest) / reportsPerPerson);
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
  const known = knownOf(survey);
  const { devices, compose } = known;
  const crowd = crowdOf(survey);
  const delta = deltaTakingPart(survey);
  const proved = (): number => {
    const [{ epsilon, laws }] = devices as [Device];
    // Without laws there is no ε₀ either, which is Infinity then.
    if (devices.some((device) => !device.laws.length)) return Infinity;
    if (compose) return compose(devices.map((device) => device.laws), survey.reportsPerPerson, crowd, delta);
    return Math.min(epsilon, Math.max(...laws.map((law) => crowdEpsilon(law, crowd, delta))));
  };
  return (known.proved ??= proved());
}

/**
 * Whether the promise is more than can be kept. This is said only where this device proves nearly what
 * anybody can: one report to one question, many people, a small ε₀, and a crowd that makes half of it or less. Elsewhere
 * its grids are too coarse, and a promise that it cannot prove may be true.
 */
export function isBroken(survey: Survey): boolean {
  const [{ epsilon, loose }, more] = devicesFor(survey) as [Device, Device?];
  const [crowd, proved] = [crowdOf(survey), provedEpsilon(survey)];
  const near = !more && survey.reportsPerPerson === 1 && crowd >= LEAST_CROWD && crowd <= MOST_PEOPLE && epsilon <= TIGHT_LOCAL;
  return near && !loose && proved <= epsilon / 2 && proved > survey.epsilon * BEYOND;
}

/** Whether that is the survey's promise, but for what two computations may differ by. */
export const isProved = (survey: Survey): boolean => provedEpsilon(survey) <= survey.epsilon * TOLERANCE;

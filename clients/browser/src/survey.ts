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
import type { Answer, One, Question, Survey } from "./types.js";

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

const VERSION = 4;
const MOST_QUESTIONS = 20;
const MOST_CELLS = 10_000; // answers of all groups together
const NONE = "(none)"; // the answer of those who skip a question

/** The mechanisms of a survey that was read here, one for each question, and how several rounds compose. */
interface Known {
  readonly devices: readonly Device[];
  readonly crowd: number;
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
const isText = (value: unknown, longest = 2000): value is string =>
  typeof value === "string" && /[^\s\x1c-\x1f\x85]/.test(value) && [...value].length <= longest;

const isWithin = (value: unknown, least: number, most = 1): boolean =>
  typeof value === "number" && value >= least && value <= most;

const isParty = (value: unknown): boolean =>
  has(value, "fingerprint url") && !!hostOf(value.url) && unhex(value.fingerprint)?.length === 32;

/** Who may report: of people invited, some at least are honest. A share of dishonest reports is that of an early version. */
const isAdmission = (value: unknown): boolean =>
  isFields(value) && value.kind === "open"
    ? has(value, "dishonest kind") && (isWhole(value.dishonest, 0, LARGEST_COUNT) || isWithin(value.dishonest, 0, 1 - 2 ** -53))
    : has(value, "dishonest entitled kind") &&
      isWhole(value.entitled, 1, MOST_ENTITLED) &&
      isWhole(value.dishonest, 0, value.entitled - 1);

const areTexts = (value: unknown, least: number): value is string[] =>
  Array.isArray(value) &&
  value.every((text) => isText(text, 200)) &&
  new Set(value.map((text) => text.normalize().replace(/\s+/g, " ").trim())).size === value.length &&
  value.length >= least;

const isName = (value: unknown): value is string => typeof value === "string" && /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}$/.test(value);

/** Whether an object has these fields, and may have `missing`: then nobody skips the question. */
const isAsked = (value: unknown, names: string): value is Fields => {
  const { missing, ...others } = value as Fields;
  return has(others, names) && others.other === false && [undefined, "refuse"].includes(missing as undefined);
};

/** A question as a form asks it, without its mechanism; undefined if it cannot be right. */
function askedOf(told: unknown): Question | undefined {
  if (!isFields(told) || !isName(told.name) || !isText(told.text)) return;
  const { kind, name, text: question, labels, groups, missing, low, high } = told as Fields & { name: string; text: string };
  const asked = { name, question, required: true, answers: [], by: "", groups: [], range: null, mechanism: "" };
  if (kind === "number") {
    const sound = has(told, "high kind low name text") && typeof low === "number" && typeof high === "number";
    return sound ? { ...asked, range: [low, high] } : undefined;
  }
  const required = missing !== undefined;
  const listed = (texts: unknown): string[] | undefined => {
    const all = Array.isArray(texts) && !required ? [...texts, NONE] : texts;
    return areTexts(all, 2) ? all : undefined;
  };
  const answers = listed(labels);
  if (kind !== "choice" || !answers || !isAsked(told, `${groups ? "groups " : ""}kind labels name other text`)) return;
  if (!groups) return { ...asked, required, answers };
  if (!isAsked(groups, "column labels other text") || groups.missing !== missing) return;
  const { column, text: by } = groups;
  const inside = listed(groups.labels);
  if (!inside || !isText(by) || !isName(column) || column === name || inside.length * answers.length > MOST_CELLS) return;
  return { ...asked, required, answers, by, groups: inside };
}

/** The first field that cannot be right by itself; `fields` if there are others than a survey has. */
function wrongField(told: Fields, several: boolean): string | undefined {
  const { batches, not_before } = told as { batches: Record<string, number> } & Record<string, number>;
  const sound: Record<string, unknown> = {
    name: isText(told.name),
    purpose: isText(told.purpose),
    questions: 1,
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
    admission: isAdmission(told.admission),
    // These are checked elsewhere.
    kind: 1,
    version: 1,
    suite: 1,
  };
  const names = Object.keys(sound).sort();
  return has(told, names.join(" ")) ? names.find((name) => !sound[name]) : "fields";
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
  const stored = parsed(bytes)!;
  unless(stored?.kind === "survey", "it is not canonical JSON");
  able(isWhole(stored.version, 1, VERSION), `surveys of version ${stored.version}`);
  const early = stored.version !== VERSION;
  const told = early ? (await more()).present(stored)! : stored;
  right(told, "version");
  const { suite, reports_per_person: reports, admission } = told as Record<string, number> & Fields;
  const { kind, dishonest } = (admission ?? {}) as Fields;
  right(early || typeof dishonest !== "number" || Number.isInteger(dishonest), "admission"); // people, and no share
  able(kind === "open" || kind === "invited", "how people are admitted to this survey");
  const items = told.questions as Fields[];
  right(Array.isArray(items) && items.length > 0 && items.length <= MOST_QUESTIONS, "questions");
  const several = items.length > 1;
  const questions: Question[] = [];
  for (const item of items) {
    const asked = has(item, "mechanism message_bytes question sampler slots") && item.question;
    const question = askedOf(asked);
    right(question && !questions.some(({ name }) => name === question.name), "questions");
    questions.push(question!);
  }
  // Anything but printable ASCII: other letters, and what is escaped.
  const plain = bytes.every((byte) => byte < 127 && byte !== 92);
  const field = wrongField(told, several) ?? (plain && questions.every(({ required }) => required) ? undefined : (await more()).hiddenField(told, questions));
  right(!field, field!);
  able((suite as unknown) === SUITE, `how to seal with ${suite}`);
  able(!told.token_bytes, "how to get the tokens that this survey needs");
  const devices: Device[] = [];
  let size = 0;
  for (const [i, { mechanism, sampler, message_bytes, slots }] of items.entries()) {
    const { answers, groups, range } = questions[i]!;
    let device;
    try {
      device = await deviceOf(mechanism as Fields, sampler as Fields, answers.length * (groups.length || 1));
    } catch (error) {
      if (!(error instanceof RangeError || error instanceof TypeError)) throw error;
      right(false, "sampler");
    }
    able(device, "the mechanism of this survey");
    const { messageBytes, epsilon } = device!;
    size += (slots as number) * (OVERHEAD + messageBytes);
    right(messageBytes === message_bytes && device!.slots === slots && size <= LARGEST, "slots");
    right(`${range}` === `${device!.range}`, "questions");
    right(!device!.absent || (reports === 1 && !several), "mechanism"); // these may not leave slots out
    right(reports! * items.length <= MOST_REPORTS, "reports_per_person");
    right((reports === 1 && !several) || epsilon <= LARGEST_LOCAL || epsilon === Infinity, "mechanism");
    devices.push(device!);
    questions[i] = { ...questions[i]!, mechanism: (mechanism as Fields).name as string };
  }
  const only = { question: told.name, answers: [], range: null, mechanism: "" };
  const survey = Object.freeze({
    ...renamed(told),
    ...(told.batches as object),
    ...(several ? only : questions[0]),
    name: told.name,
    questions,
    id,
    bytes: bytes.slice(),
    localEpsilon: devices.reduce((sum, { epsilon }) => sum + epsilon, 0),
    reportBytes: OVERHEAD + size,
  }) as unknown as Survey;
  const { minimum } = survey;
  // R reports of each dishonest person are no crowd.
  const honest = early ? (await more()).honestOf(survey) : Math.max(0, minimum - reports! * survey.admission.dishonest);
  const crowd = Math.floor(honest / reports!);
  read.set(survey, { devices, crowd, compose: several || reports! > 1 ? (await more()).composedEpsilon : undefined });
  right(crowd >= 1 && (survey.admission.kind === "open" || minimum <= reports! * survey.admission.entitled), "minimum");
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
  return questions.map((question) => valueOf(question, given[question.name] ?? (question.groups.length ? [null, null] : null)));
}

function valueOf({ required, range, answers, groups }: Question, answer: One | null): number {
  if (range) {
    const [low, high] = range;
    if (typeof answer === "number" && answer >= low && answer <= high) return answer;
    throw new ShoalError("refused", `An answer to this survey is a number from ${low} to ${high}.`);
  }
  const lists = groups.length ? [groups, answers] : [answers];
  const texts = [answer].flat() as (string | null)[];
  const places = lists.map((list, i) => list.indexOf(texts[i] ?? (required ? "" : NONE)));
  if (texts.length !== lists.length || places.includes(-1)) {
    throw new ShoalError("refused", "This is not one of the survey's answers.");
  }
  return places.reduce((code, place) => code * answers.length + place, 0);
}

/** People among whom each of one person's reports hides in the smallest batch, that person included. */
export const crowdOf = (survey: Survey): number => knownOf(survey).crowd;

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

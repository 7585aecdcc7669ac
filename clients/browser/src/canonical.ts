/** Configurations in their one way of writing: the JSON Canonicalization Scheme (RFC 8785). */

import { utf8, type Bytes } from "./bytes.js";

export type Fields = Record<string, unknown>;

const LARGEST = 1 << 16;

/** ECMAScript's own numbers and strings are what RFC 8785 asks for. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical)}]`;
  if (!isFields(value)) {
    if (/\p{Surrogate}/u.test(value as string)) throw new RangeError();
    return JSON.stringify(value);
  }
  const members = Object.keys(value).sort().map((name) => `${canonical(name)}:${canonical(value[name])}`);
  return `{${members}}`;
}

export const written = (value: unknown): Bytes => utf8(canonical(value));

/** The object that these bytes are the one way of writing, or null. */
export function parsed(bytes: Uint8Array): Fields | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const value: unknown = JSON.parse(text);
    return bytes.length <= LARGEST && isFields(value) && canonical(value) === text ? value : null;
  } catch {
    return null;
  }
}

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether a value is an object with exactly these fields, named in one text. */
export const has = (value: unknown, names: string): value is Fields =>
  isFields(value) && Object.keys(value).sort().join(" ") === names;

/** Whether it is a whole number from so many to so many. */
export const isWhole = (value: unknown, least = 0, most = Infinity): value is number =>
  Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;

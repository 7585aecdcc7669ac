/** Bytes, their writing in hexadecimal digits, and their hash. */

export type Bytes = Uint8Array<ArrayBuffer>;

export const utf8 = (text: string): Bytes => new TextEncoder().encode(text) as Bytes;

export const hex = (bytes: Uint8Array): string =>
  [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** The bytes of lower-case digits, or null. */
export const unhex = (text: unknown): Bytes | null =>
  typeof text === "string" && /^([0-9a-f]{2})*$/.test(text)
    ? Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16))
    : null;

export function joined(...parts: ArrayLike<number>[]): Bytes {
  const found = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let end = 0;
  for (const part of parts) {
    found.set(part, end);
    end += part.length;
  }
  return found;
}

export const sha256 = async (bytes: Uint8Array): Promise<string> =>
  hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Bytes)));

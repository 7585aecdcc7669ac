/**
 * Envelopes of one size (RFC 9180: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode).
 *
 *     info      = "shoal/1 " role 00 survey[32] key number[1] question[1 of several, in inner ones]
 *     plaintext = 01 length[2] message zeros, up to the capacity
 *     envelope  = 01 key number[1] enc[32] ciphertext[3 + length + 16]
 *
 * All of HPKE is that of @hpke/core.
 */

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { hex, joined, utf8, type Bytes } from "./bytes.js";

export const SUITE = "x25519-aes128gcm";
export const OVERHEAD = 2 + 32 + 3 + 16;
export const LARGEST = 65535;

const suite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(),
  kdf: new HkdfSha256(),
  aead: new Aes128Gcm(),
});

/** A party's key, and the number that travels with every envelope. */
export interface PublicKey {
  readonly raw: Bytes;
  readonly number: number;
}

/** What an envelope is bound to. */
export const infoOf = (role: string, survey: Bytes, ...numbers: number[]): Bytes =>
  joined(utf8(`shoal/1 ${role}\0`), survey, numbers);

async function envelope(
  role: string,
  survey: Bytes,
  { raw, number }: PublicKey,
  message: Bytes,
  question: number[] = [],
  missing = 0,
): Promise<Bytes> {
  const padded = joined([1, message.length >> 8, message.length & 255], message, new Uint8Array(missing));
  const recipientPublicKey = await suite.kem.deserializePublicKey(raw);
  const { enc, ct } = await suite.seal({ recipientPublicKey, info: infoOf(role, survey, number, ...question) }, padded);
  return joined([1, number], new Uint8Array(enc), new Uint8Array(ct));
}

/** The slots of a question, and the bytes of each of its messages. */
export type Shape = readonly [slots: number, bytes: number];

/** One person's report: every message sealed for the analyzer, all of them for the shuffler. What is
 *  absent, in hexadecimal digits, is not sent; the report is as long as if it were. */
export async function seal(
  survey: Bytes,
  messages: Bytes,
  shapes: readonly Shape[],
  keys: { analyzer: PublicKey; shuffler: PublicKey },
  absent?: string | undefined,
): Promise<Bytes> {
  const inner: Bytes[] = [];
  let start = 0;
  let missing = 0;
  for (const [question, [slots, size]] of shapes.entries()) {
    const context = shapes.length > 1 ? [question] : [];
    for (let i = 0; i < slots; i++, start += size) {
      const message = messages.slice(start, start + size);
      if (hex(message) === absent) missing += OVERHEAD + size;
      else inner.push(await envelope("inner", survey, keys.analyzer, message, context));
    }
  }
  return envelope("outer", survey, keys.shuffler, joined(...inner), [], missing);
}

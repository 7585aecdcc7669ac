/**
 * Envelopes of one size (RFC 9180: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode).
 *
 *     info      = "shoal/1 " role 00 survey[32] key number[1]
 *     plaintext = 01 length[2] message
 *     envelope  = 01 key number[1] enc[32] ciphertext[3 + length + 16]
 *
 * All of HPKE is that of @hpke/core.
 */

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { joined, utf8, type Bytes } from "./bytes.js";

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
export const infoOf = (role: string, survey: Bytes, number: number): Bytes =>
  joined(utf8(`shoal/1 ${role}\0`), survey, [number]);

async function envelope(role: string, survey: Bytes, { raw, number }: PublicKey, message: Bytes): Promise<Bytes> {
  const padded = joined([1, message.length >> 8, message.length & 255], message);
  const recipientPublicKey = await suite.kem.deserializePublicKey(raw);
  const { enc, ct } = await suite.seal({ recipientPublicKey, info: infoOf(role, survey, number) }, padded);
  return joined([1, number], new Uint8Array(enc), new Uint8Array(ct));
}

/** One person's report: every message sealed for the analyzer, all of them for the shuffler. */
export async function seal(
  survey: Bytes,
  messages: Bytes,
  slots: number,
  keys: { analyzer: PublicKey; shuffler: PublicKey },
): Promise<Bytes> {
  const size = messages.length / slots;
  const inner: Bytes[] = [];
  for (let i = 0; i < slots; i++) {
    inner.push(await envelope("inner", survey, keys.analyzer, messages.slice(i * size, (i + 1) * size)));
  }
  return envelope("outer", survey, keys.shuffler, joined(...inner));
}

// A client of version 1, written from the wire format alone: nothing of the package is imported.
//
// It must never change: pages that people have open do not. Reads a survey, two public keys with their
// numbers and one message a slot as JSON from standard input, and writes the report in hexadecimal.

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";

const bytes = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
const text = (written) => new TextEncoder().encode(written);
const fromHex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const toHex = (raw) => [...raw].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** 01, key number, HPKE of (01, length, message), bound to the role, the survey and the key. */
async function sealed(role, surveyId, key, message) {
  const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes128Gcm() });
  const sender = await suite.createSenderContext({
    recipientPublicKey: await suite.kem.deserializePublicKey(fromHex(key.public).buffer),
    info: bytes(text(`shoal/1 ${role}`), [0], surveyId, [key.number]).buffer,
  });
  const padded = bytes([1, message.length >> 8, message.length & 255], message);
  const ciphertext = new Uint8Array(await sender.seal(padded.buffer));
  return bytes([1, key.number], new Uint8Array(sender.enc), ciphertext);
}

/** What is sent: every message sealed for the analyzer, all of them for the shuffler. */
async function report(asked) {
  const survey = text(asked.survey);
  const surveyId = new Uint8Array(await crypto.subtle.digest("SHA-256", survey));
  const told = JSON.parse(asked.survey);
  const messages = asked.messages.map(fromHex);
  const token = fromHex(asked.token);
  if (
    told.version !== 1 ||
    told.suite !== "x25519-aes128gcm" ||
    messages.length !== told.slots ||
    messages.some((message) => message.length !== told.message_bytes) ||
    token.length !== told.token_bytes
  ) {
    throw new Error("not a report of this survey");
  }
  const inner = [];
  for (const message of messages) inner.push(await sealed("inner", surveyId, asked.analyzer, message));
  return sealed("outer", surveyId, asked.shuffler, bytes(...inner, token));
}

let input = "";
for await (const part of process.stdin) input += part;
process.stdout.write(toHex(await report(JSON.parse(input))));

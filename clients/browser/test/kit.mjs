// What the tests share: the insides of the client, recorded vectors, operators in one process.

import "fake-indexeddb/auto";
import { createPrivateKey, createPublicKey, sign } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { build } from "esbuild";
import { common } from "../bundling.mjs";
import { everything } from "./insides.mjs";

/** Everything that the sources export, by module. */
async function insides() {
  const folder = mkdtempSync(join(tmpdir(), "shoal-client-"));
  const out = join(folder, "inside.mjs");
  try {
    await build({ ...everything, outfile: out, format: "esm" });
    return await import(pathToFileURL(out).href);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export const inside = await insides();
export const { ShoalClient } = inside.client;
export const { ShoalError } = inside.errors;

export const root = join(common.absWorkingDir, "..", "..");
export const vectors = (name) =>
  JSON.parse(readFileSync(join(root, "tests", "service", "vectors", `${name}_v1.json`), "utf8"));

export const utf8 = (text) => new TextEncoder().encode(text);
export const unhex = (text) => Uint8Array.from(Buffer.from(text, "hex"));
export const hex = (bytes) => Buffer.from(bytes).toString("hex");

/** The message in an envelope, opened by the library itself. */
export async function opened(envelope, role, survey, { secret, number }) {
  const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes128Gcm() });
  const context = await suite.createRecipientContext({
    recipientKey: await suite.kem.deserializePrivateKey(unhex(secret).buffer),
    enc: envelope.slice(2, 34).buffer,
    info: inside.sealing.infoOf(role, survey, number),
  });
  const padded = new Uint8Array(await context.open(envelope.slice(34).buffer));
  if (envelope[0] !== 1 || envelope[1] !== number || padded[0] !== 1) throw new Error("another format");
  const length = 256 * padded[1] + padded[2];
  if (padded.slice(3 + length).some((byte) => byte)) throw new Error("wrong padding");
  return padded.slice(3, 3 + length);
}

/** All messages in a report. */
export async function messagesOf(report, survey, { shuffler, analyzer }, messageBytes) {
  const sealed = await opened(report, "outer", survey, shuffler);
  const size = 53 + messageBytes;
  const found = [];
  for (let i = 0; i < sealed.length; i += size) {
    found.push(hex(await opened(sealed.slice(i, i + size), "inner", survey, analyzer)));
  }
  return found;
}

// Operators.

export const NOW = 1_800_000_000;
const DAY = 86_400;
const PKCS8 = { x25519: "302e020100300506032b656e04220420", ed25519: "302e020100300506032b657004220420" };

const privateKey = (kind, raw) =>
  createPrivateKey({ key: Buffer.from(PKCS8[kind] + raw, "hex"), format: "der", type: "pkcs8" });
const publicRaw = (key) => hex(createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32));
const secretOf = async (text) => await inside.bytes.sha256(utf8(text));

/** Whoever has keys: an identity, and pairs by number. */
export class Owner {
  constructor(role) {
    Object.assign(this, { role, first: 0, newest: 0, issued: NOW - DAY, maxAge: 3600, changes: {} });
  }

  static async named(role) {
    const owner = new Owner(role);
    owner.identity = privateKey("ed25519", await secretOf(`identity of the ${role}`));
    const raw = publicRaw(owner.identity);
    owner.fingerprint = await inside.bytes.sha256(
      inside.bytes.joined(utf8(`shoal/1 identity\0${role}\0`), unhex(raw)),
    );
    return owner;
  }

  async pair(number) {
    const secret = await secretOf(`${this.role} ${number} ${this.changes.secret ?? ""}`);
    return { secret, number, public: publicRaw(privateKey("x25519", secret)) };
  }

  /** A new key; the old ones are deleted. */
  rotate() {
    this.newest += 1;
    this.first = this.newest;
    this.issued += 1;
  }

  async document(identity = this.identity) {
    const keys = [];
    for (let number = this.first; number <= this.newest; number++) {
      keys.push({
        number,
        suite: "x25519-aes128gcm",
        public: (await this.pair(number)).public,
        created: NOW - DAY,
        active_from: NOW - DAY + number,
        expires_at: NOW + 100 * DAY,
        deletes_at: NOW + 200 * DAY,
      });
    }
    const list = { version: 1, kind: "keys", role: this.role, issued: this.issued, valid_until: NOW + 300 * DAY, keys, ...this.changes.list };
    const signed = inside.bytes.joined(utf8("shoal/1 keys\0"), inside.canonical.written(list));
    return inside.canonical.written({
      identity: publicRaw(identity),
      list,
      signature: hex(sign(null, signed, identity)),
    });
  }
}

/** A survey with its operators, who answer `fetch` and fail as they are told to. */
export class Services {
  static async open(changes = {}) {
    const found = new Services();
    found.shuffler = await Owner.named("shuffler");
    found.analyzer = await Owner.named("analyzer");
    const { dishonest, ...fields } = { ...(await found.configuration()), ...changes };
    const version = changes.admission ? { version: 2 } : { dishonest };
    // Written as of an early version, whose fields are not nested.
    const early = { version: 1, ...fields, ...version };
    found.bytes = inside.canonical.written(inside.older.present(early) ?? early);
    found.id = await inside.bytes.sha256(found.bytes);
    found.posts = [];
    found.asked = [];
    found.seen = new Map();
    found.answers = {};
    found.now = NOW;
    found.codeBytes = changes.admission?.kind === "invited" ? 16 : 0;
    return found;
  }

  /** Randomized response among many answers: a message drawn again would be another one. */
  async configuration() {
    const k = 1000;
    return {
      ...JSON.parse(vectors("reports").cases[0].survey),
      mechanism: { name: "grr", k, epsilon: 0.5 },
      // e^0.5 is above 3/2.
      sampler: { high: 3, low: 2, total: 3 + 2 * (k - 1) },
      answers: Array.from({ length: k }, (_, i) => `answer ${i}`),
      message_bytes: 2,
      not_before: NOW - DAY,
      not_after: NOW + 30 * DAY,
      epsilon: 0.5,
      shuffler: { url: "https://shuffler.example", fingerprint: this.shuffler.fingerprint },
      analyzer: { url: "https://analyzer.example", fingerprint: this.analyzer.fingerprint },
    };
  }

  fetch = async (url, options = {}) => {
    const { pathname, host } = new URL(url);
    this.asked.push(`${options.method ?? "GET"} ${host}${pathname}`);
    if (options.credentials !== "omit" || options.redirect !== "error" || options.referrerPolicy !== "no-referrer") {
      throw new Error("this request tells who asks");
    }
    const answer = this.answers[`${options.method ?? "GET"} ${pathname}`];
    if (answer) return answer(options, url);
    if (options.method === "POST") return this.take(options);
    if (pathname === `/v1/surveys/${this.id}`) return new Response(this.bytes);
    const owner = pathname === "/v1/keys" ? this.shuffler : pathname.endsWith("/keys/analyzer") ? this.analyzer : null;
    if (!owner) return new Response("{}", { status: 404 });
    return new Response(await owner.document(), { headers: { "cache-control": `max-age=${owner.maxAge}` } });
  };

  async take({ body }) {
    this.posts.push(hex(new Uint8Array(body)));
    const bytes = new Uint8Array(body).slice(0, -this.codeBytes || undefined);
    const number = bytes[1];
    const refused = [];
    if (number < this.shuffler.first || number > this.shuffler.newest) refused.push({ index: 0, reason: "unknown_key" });
    else this.seen.set(hex(bytes), await this.opened(bytes));
    return new Response(JSON.stringify({ reports: 1, refused }), { status: 202 });
  }

  async opened(report) {
    const keys = { shuffler: await this.shuffler.pair(report[1]), analyzer: await this.analyzer.pair(this.analyzer.newest) };
    return (await messagesOf(report, unhex(this.id), keys, 2)).join("");
  }

  /** What is answered to reports instead. */
  onReports(answer) {
    const key = `POST /v1/surveys/${this.id}/reports`;
    if (answer) this.answers[key] = answer;
    else delete this.answers[key];
  }

  open = (options = {}) =>
    ShoalClient.open({ name: `outbox ${names++}`, fetch: this.fetch, now: () => this.now, ...options });

  survey(client) {
    return client.survey(this.bytes, this.id);
  }
}

let names = 0;

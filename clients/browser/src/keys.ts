/**
 * The keys to seal with: fetched from the shuffler, checked against the survey, kept for a while.
 *
 * A list counts if the identity that the survey names has signed it. It is refused if it is older
 * than one seen at the same place, or contradicts any list seen before: two of one moment, or two
 * keys of one number.
 */

import { hex, joined, sha256, unhex, utf8, type Bytes } from "./bytes.js";
import { has, isWhole, parsed, written, type Fields } from "./canonical.js";
import { ShoalError } from "./errors.js";
import { ask, Later, maxAge, problem, retryAfter } from "./exchange.js";
import { SUITE, type PublicKey, type Shape } from "./sealing.js";
import type { Box, Store } from "./store.js";
import type { Party } from "./types.js";

export const DAY = 86_400; // seconds
const MOST_KEYS = 16;
const LENGTHS: Record<string, number> = { [SUITE]: 32, "mlkem768x25519-aes128gcm": 1216 };
const TIMES = ["created", "active_from", "expires_at", "deletes_at"] as const;

export type Role = "shuffler" | "analyzer";

/** All that is kept of a survey until its reports are delivered: neither the question nor answers. */
export interface Route {
  readonly shuffler: Party;
  readonly analyzer: Party;
  /** Of the only question; of several there are shapes. */
  readonly slots: number;
  readonly absent?: string | undefined;
  readonly shapes?: readonly Shape[];
  readonly notAfter: number;
}

interface Listed {
  document: Bytes;
  issued: number;
  validUntil: number;
  keys: Fields[];
}

interface Remembered {
  key: string;
  document: Bytes;
  digest: string;
  issued: number;
  until: number;
}

class Refused extends Error {}

function must(holds: unknown, why = "it is not written as a list of keys"): asserts holds {
  if (!holds) throw new Refused(why);
}

/** The list in these bytes, if whom the survey names signed it for this role, and it is valid now. */
export async function verified(bytes: Uint8Array, role: Role, fingerprint: string, now: number): Promise<Listed> {
  const told = parsed(bytes);
  must(has(told, "identity list signature"));
  const { list } = told;
  must(has(list, "issued keys kind role valid_until version") && list.version === 1 && list.kind === "keys");
  const { issued, valid_until: validUntil, keys } = list;
  must(isWhole(issued) && isWhole(validUntil) && issued < validUntil);
  must(Array.isArray(keys) && keys.length >= 1 && keys.length <= MOST_KEYS);
  let last = -1;
  for (const key of keys as unknown[]) {
    must(has(key, "active_from created deletes_at expires_at number public suite"));
    must(isWhole(key.number, last + 1, 255));
    last = key.number;
    must(TIMES.every((name, i) => isWhole(key[name], (key[TIMES[i - 1]!] as number) ?? 0)));
    // What is no key has no length, and neither has a suite that is not known: these are not the same.
    must(typeof key.suite === "string" && unhex(key.public)?.length === (LENGTHS[key.suite] ?? -1));
  }
  const identity = unhex(told.identity);
  const signature = unhex(told.signature);
  must(identity?.length === 32 && signature?.length === 64);
  // The fingerprint is of a role too: what an analyzer signed is never taken for a shuffler's.
  const found = await sha256(joined(utf8(`shoal/1 identity\0${role}\0`), identity));
  must(found === fingerprint && list.role === role, "it is not from the party that the survey names");
  const key = await crypto.subtle.importKey("raw", identity, "Ed25519", false, ["verify"]).catch(() => null);
  const signed = joined(utf8("shoal/1 keys\0"), written(list));
  must(key && (await crypto.subtle.verify("Ed25519", key, signature, signed)), "its signature is wrong");
  must(now <= validUntil, "it has expired");
  must(issued <= now + DAY, "it is dated in the future, or this device's clock is wrong");
  return { document: bytes.slice() as Bytes, issued, validUntil, keys: keys as Fields[] };
}

/** The key to seal with: of those in use the newest. */
function current(keys: Fields[], now: number): PublicKey {
  const usable = (keys as (Fields & Record<string, number>)[])
    .filter((key) => key.suite === (SUITE as unknown) && key.active_from! <= now && now < key.expires_at!)
    .sort((one, other) => one.active_from! - other.active_from! || one.number! - other.number!);
  const found = usable.at(-1);
  must(found, "none of its keys is in use now");
  return { raw: unhex(found.public)!, number: found.number! };
}

/** Remember a list that was verified, if it may follow what was seen. */
async function take(store: Store, place: string, fingerprint: string, found: Listed, until: number): Promise<void> {
  const digest = await sha256(found.document);
  const key = `keys ${fingerprint} ${place}`;
  const numbered: [number, string][] = await Promise.all(
    found.keys.map(async (key): Promise<[number, string]> => [
      key.number as number,
      await sha256(joined(utf8("shoal/1 key\0"), unhex(key.public)!)),
    ]),
  );
  await store.run(async (box) => {
    const seen = await box.all<Remembered>(`keys ${fingerprint} `);
    const last = await box.get<Remembered>(key);
    const known = (await box.get<{ keys: Record<number, string> }>(`known ${fingerprint}`))?.keys ?? {};
    must(
      numbered.every(([number, print]) => (known[number] ?? print) === print) &&
        seen.every((list) => list.issued !== found.issued || list.digest === digest),
      "its operator has signed another one that contradicts it",
    );
    must(!last || last.issued <= found.issued, "a newer one was seen before");
    await box.put({ key, document: found.document, digest, issued: found.issued, until });
    await box.put({ key: `known ${fingerprint}`, keys: { ...known, ...Object.fromEntries(numbered) } });
  });
}

/** The key of one party, of a list that is kept or that the shuffler shows. */
async function keyOf(
  role: Role,
  survey: string,
  route: Route,
  store: Store,
  fetcher: typeof fetch,
  now: number,
  fresh: boolean,
): Promise<PublicKey> {
  const { url } = route.shuffler;
  const { fingerprint } = route[role];
  const place = `${role} ${url}`;
  try {
    const kept = await store.get<Remembered>(`keys ${fingerprint} ${place}`);
    if (kept?.document.length && kept.until > now && !fresh) {
      return current((await verified(kept.document, role, fingerprint, now)).keys, now);
    }
    const reply = await ask(fetcher, role === "shuffler" ? `${url}/v1/keys` : `${url}/v1/surveys/${survey}/keys/analyzer`);
    if (reply.status !== 200) {
      throw new Later(`the keys of the ${role} cannot be fetched: ${problem(reply)}`, true, retryAfter(reply));
    }
    const found = await verified(reply.body, role, fingerprint, now);
    await take(store, place, fingerprint, found, Math.min(now + Math.min(maxAge(reply), DAY), found.validUntil));
    return current(found.keys, now);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    throw new ShoalError("keys", `The key list of the ${role} is refused: ${error.message}.`);
  }
}

export interface Keys {
  readonly shuffler: PublicKey;
  readonly analyzer: PublicKey;
  /** Tells apart what was sealed with which keys. */
  readonly named: string;
}

/** Keys of both parties; `fresh` asks even if some are kept. */
export async function keysOf(...asked: [string, Route, Store, typeof fetch, number, boolean]): Promise<Keys> {
  const shuffler = await keyOf("shuffler", ...asked);
  const analyzer = await keyOf("analyzer", ...asked);
  return { shuffler, analyzer, named: `${hex(shuffler.raw)} ${hex(analyzer.raw)}` };
}

/** What opting out leaves of lists: which were seen, so that no older one is taken later. */
export async function wipeLists(box: Box): Promise<void> {
  for (const list of await box.all<Remembered>("keys ")) {
    await box.put({ ...list, document: new Uint8Array(), until: 0 });
  }
}

/**
 * The client: draw, keep, seal, keep, send, mark, in this order, once.
 *
 * A report is drawn once for every survey and occasion, inside the transaction that writes it. Every
 * further try sends the same bytes. If the shuffler no longer has the key, the same message is sealed
 * with the new one, but only while every earlier try certainly did not arrive; else it is given up:
 * twice is not what was promised, and most likely it did arrive.
 */

import { joined, unhex, type Bytes } from "./bytes.js";
import { isWhole } from "./canonical.js";
import { afterSending, ShoalError } from "./errors.js";
import { ask, Later, Never, problem, Reseal, taken, Unadmitted } from "./exchange.js";
import { hostOf, isPublic } from "./hosts.js";
import { codeOf } from "./invitation.js";
import { DAY, keysOf, wipeLists, type Route } from "./keys.js";
import { checkHost, checkTotals, costOf, DEFAULTS } from "./policy.js";
import { below, pick } from "./random.js";
import { LONGEST_WAIT, NOTHING, OVER, outcomeOf, waits, wiped, type Price, type Row } from "./rows.js";
import { seal } from "./sealing.js";
import { Store, type Box } from "./store.js";
import { devicesFor, readSurvey, valuesOf } from "./survey.js";
import type { Answer, Checked, Entry, Options, Outcome, Policy, Reporting, Survey } from "./types.js";

const TRIES = 3; // with other keys, within one call
const OPTED_OUT = "opted out";

export class ShoalClient {
  readonly #listeners = new Set<() => void>();
  #prices: Price[] = [];
  #out = false;

  readonly #store: Store;
  readonly #name: string;
  readonly #policy: Policy;
  readonly #fetch: typeof fetch;
  readonly #now: () => number;

  private constructor(store: Store, name: string, policy: Policy, fetcher: typeof fetch, now: () => number) {
    this.#store = store;
    this.#name = name;
    this.#policy = policy;
    this.#fetch = fetcher;
    this.#now = now;
  }

  /** A client with its outbox; refused where what is needed to seal and to keep is not there. */
  static async open({ name = "shoal", policy, fetch: fetcher, now }: Options = {}): Promise<ShoalClient> {
    try {
      indexedDB.open; // outside of browsers there is none
      await crypto.subtle.generateKey("X25519", false, ["deriveBits"]);
      await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]);
    } catch {
      throw new ShoalError("unsupported", "This browser cannot seal and keep an answer: it needs X25519, Ed25519 and IndexedDB, and a page loaded by https.");
    }
    const client = new ShoalClient(
      await Store.open(name),
      name,
      { ...DEFAULTS, ...policy },
      fetcher ?? ((...asked) => fetch(...asked)),
      now ?? (() => Math.floor(Date.now() / 1000)),
    );
    await client.#changed();
    return client;
  }

  /** The survey in these bytes, if it hashes to `id`. */
  async survey(bytes: Uint8Array, id?: string): Promise<Survey> {
    return this.#placed(await readSurvey(bytes, id), globalThis.location?.hostname ?? "localhost");
  }

  /** The survey with this name at a service; a changed one is refused. */
  async load(url: string, id: string): Promise<Survey> {
    url = url.replace(/\/+$/, "");
    checkHost(url, this.#policy);
    const reply = await ask(this.#fetch, `${url}/v1/surveys/${id}`);
    const { status } = reply;
    if (status !== 200) {
      throw new ShoalError("network", status === 404 ? "This survey is not here, or no longer here." : `The survey cannot be fetched: ${problem(reply)}.`);
    }
    return this.#placed(await readSurvey(reply.body, id), hostOf(url));
  }

  /** Refuse to be sent by strangers to machines that only this one can reach. */
  #placed(survey: Survey, from: string): Survey {
    for (const { url } of [survey.shuffler, survey.analyzer]) {
      const host = hostOf(url);
      if (!(isPublic(host) || !isPublic(from) || this.#policy.hosts?.includes(host))) {
        throw new ShoalError("policy", `This survey sends to ${host}, which is not a public address.`);
      }
    }
    return survey;
  }

  /** What answering would cost, if it is allowed; nothing is drawn or sent. */
  check(survey: Survey): Checked {
    this.#open(survey, 1);
    if (this.#out) throw optedOut();
    const cost = costOf(survey, this.#policy);
    checkTotals(survey.id, cost, this.#prices, this.#policy);
    return cost;
  }

  #open(survey: Survey, occasion: number): void {
    const now = this.#now();
    const day = (seconds: number) => new Date(Math.min(seconds, 2e11) * 1000).toISOString().slice(0, 10);
    if (now < survey.notBefore) throw new ShoalError("not-started", `This survey begins on ${day(survey.notBefore)}.`);
    if (now > survey.notAfter) throw new ShoalError("expired", `This survey ended on ${day(survey.notAfter)}.`);
    if (!isWhole(occasion, 1, survey.reportsPerPerson)) {
      throw new ShoalError("used-up", `This survey takes no more than ${survey.reportsPerPerson} of your reports.`);
    }
  }

  /**
   * Answer a survey, or go on with the report of this occasion if it was made before: one that waits
   * because of its invitation goes on with another. A number alone is the occasion.
   */
  async report(survey: Survey, answer: Answer, options: Reporting | number = {}): Promise<Outcome> {
    const { occasion = 1, invitation } = typeof options === "number" ? { occasion: options } : options;
    this.#open(survey, occasion);
    const values = valuesOf(survey, answer);
    const cost = costOf(survey, this.#policy);
    const key = `report ${survey.id} ${occasion}`;
    const code = await this.#code(survey, occasion, invitation);
    const drawn = await this.#store.run(async (box) => {
      if (await box.get(OPTED_OUT)) throw optedOut();
      if (await box.get(key)) return false;
      if (isInvited(survey) && !code.length) throw notInvited();
      const prices = await box.all<Price>("survey ");
      checkTotals(survey.id, cost, prices, this.#policy);
      await this.#draw(box, survey, occasion, values, cost, code);
      return true;
    });
    await this.#changed();
    return drawn || !invitation ? this.#finished(key, false, !drawn) : this.admit(survey, invitation, occasion);
  }

  /** Go on with a report that waits, with another invitation beside it. */
  async admit(survey: Survey, invitation: string, occasion = 1): Promise<Outcome> {
    const key = `report ${survey.id} ${occasion}`;
    const code = await this.#code(survey, occasion, invitation);
    await this.#change(await this.#kept<Row>(key), (now) => ({ ...now, code, refusal: "" }));
    return this.#finished(key, true, true);
  }

  /** What becomes of a report, unless it is given up. */
  async #finished(key: string, hurry: boolean, again: boolean): Promise<Outcome> {
    const outcome = await this.#deliver(key, hurry, again);
    if (outcome.state === "given-up") {
      const { doubt } = await this.#kept<Row>(key);
      throw new ShoalError("refused", `Your report was given up: ${outcome.reason}.`, doubt > 0);
    }
    return outcome;
  }

  /** What stands beside a report; nothing without an invitation. */
  async #code(survey: Survey, occasion: number, invitation?: string): Promise<Bytes> {
    if (!invitation) return NOTHING;
    if (!isInvited(survey)) throw new ShoalError("invitation", "This survey takes no invitation: anybody may answer it.");
    return codeOf(invitation, survey.id, occasion);
  }

  async #draw(box: Box, survey: Survey, occasion: number, values: number[], cost: Checked, code: Bytes): Promise<void> {
    const devices = devicesFor(survey);
    const { id, shuffler, analyzer, notAfter } = survey;
    // The chance of taking part is rounded down, so it is at most what the survey promises.
    const takesPart = survey.participation === 1 || below(1n << 62n) < BigInt(Math.floor(survey.participation * 2 ** 62));
    const price: Price = {
      key: `survey ${id}`,
      survey: id,
      name: survey.name,
      epsilon: cost.epsilon,
      delta: cost.delta,
      localEpsilon: cost.localEpsilon,
      reports: 0,
      allowed: survey.reportsPerPerson,
      waiting: 0,
      refusal: "",
      route: {
        ...{ shuffler, analyzer, slots: devices[0]!.slots, absent: devices[0]!.absent, notAfter },
        ...(devices.length > 1 && { shapes: devices.map(({ slots, messageBytes }) => [slots, messageBytes] as const) }),
      },
    };
    const row: Row = {
      key: `report ${id} ${occasion}`,
      survey: id,
      occasion,
      ending: takesPart ? "" : "abstained",
      messages: takesPart ? joined(...devices.map((device, i) => device.draw(values[i]!, below))) : NOTHING,
      sealed: new Uint8Array(takesPart ? survey.reportBytes : 0),
      code: takesPart ? code : NOTHING,
      refusal: "",
      keys: "",
      doubt: 0,
      waits: 0,
      due: 0,
      over: 0,
    };
    if (!(await box.get(price.key))) await box.put(price);
    await box.put(row);
  }

  /**
   * Try what waits and may leave by now, of the surveys that are `wanted`; `everything` does not wait
   * until it may.
   */
  async flush(everything = false, wanted = (_survey: string): boolean => true): Promise<Outcome[]> {
    const found: Outcome[] = [];
    for (const row of await this.#rows()) {
      if (row.ending || !wanted(row.survey) || (waits(row, this.#now()) && !everything)) continue;
      try {
        found.push(await this.#deliver(row.key, true, true));
      } catch (error) {
        // Whatever it is, it is of this report alone: those of other surveys can go on.
        const due = waits(row, this.#now()) ? row.due : 0; // not a moment that has passed, to be tried at once
        found.push({ ...(await outcomeOf(row, true)), state: "waiting", due, reason: (error as Error).message });
      }
    }
    return found;
  }

  /** How many reports wait. */
  async pending(): Promise<number> {
    return (await this.#rows()).filter((row) => !row.ending).length;
  }

  /** What every survey has cost. */
  async ledger(): Promise<Entry[]> {
    const rows = await this.#rows();
    await this.#changed(false);
    return this.#prices.map(({ key: _key, route: _route, ...entry }) => {
      const own = rows.filter((row) => row.survey === entry.survey);
      const waiting = own.filter((row) => !row.ending);
      const refusal = waiting.find((row) => row.refusal)?.refusal ?? "";
      return { ...entry, reports: own.length, waiting: waiting.length, refusal };
    });
  }

  /** Wipe all that waits, and answer nothing until `optIn`. */
  async optOut(): Promise<void> {
    await this.#store.run(async (box) => {
      await box.put({ key: OPTED_OUT, out: true } as { key: string });
      await wipeLists(box);
      for (const row of await box.all<Row>("report ")) if (!row.ending) await box.put(wiped(row, "forgotten"));
    });
    await this.#changed();
  }

  /** Take part again. */
  async optIn(): Promise<void> {
    await this.#store.run((box) => box.remove(OPTED_OUT));
    await this.#changed();
  }

  /** Be told when anything changes; the function that is returned ends it. */
  on(_event: "change", listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    this.#store.close();
  }

  // Delivering.

  #rows(): Promise<Row[]> {
    return this.#store.all<Row>("report ");
  }

  /** What was written before: it is there, unless somebody has emptied the store. */
  async #kept<T>(key: string): Promise<T> {
    const found = await this.#store.get<T>(key);
    if (!found) throw new ShoalError("storage", "What this browser kept of your report was deleted.");
    return found;
  }

  async #changed(told = true): Promise<void> {
    this.#prices = await this.#store.all<Price>("survey ");
    this.#out = !!(await this.#store.get(OPTED_OUT));
    if (told) this.#listeners.forEach((listener) => listener());
  }

  /** Change a report if it still waits and its bytes are those that are known; whether it was. */
  async #change(row: Row, how: (now: Row) => Row): Promise<boolean> {
    return this.#store.run(async (box) => {
      const now = await box.get<Row>(row.key);
      if (!now || now.ending || now.keys !== row.keys || (await box.get(OPTED_OUT))) return false;
      await box.put(how(now));
      return true;
    });
  }

  /** One tab at a time, where the browser can see to that; else the transactions do. */
  async #deliver(key: string, hurry: boolean, again: boolean): Promise<Outcome> {
    const work = () => this.#tried(key, hurry, again);
    const locks = globalThis.navigator?.locks as LockManager | undefined;
    try {
      return await (locks ? locks.request(`${this.#name} ${key}`, work) : work());
    } catch (error) {
      if (!(error instanceof ShoalError)) throw error;
      // If that cannot be read, nobody knows; then it is not said that nothing was sent.
      const row = await this.#store.get<Row>(key).catch(() => null);
      throw row && !row.doubt ? error : afterSending(error);
    } finally {
      await this.#changed().catch(() => {}); // what became of the report is told all the same
    }
  }

  async #tried(key: string, hurry: boolean, again: boolean): Promise<Outcome> {
    let fresh = false;
    for (let attempt = 1; ; attempt++) {
      const row = await this.#kept<Row>(key);
      const { route } = await this.#kept<Price>(`survey ${row.survey}`);
      const now = this.#now();
      if (row.ending || (waits(row, now) && !hurry)) return outcomeOf(row, again);
      // Nothing leaves after the end. But a clock may be wrong for a moment, and what is wiped is gone:
      // it is wiped once it was over for a day, of which no moment was seen when it was not.
      const over = now > route.notAfter ? Math.min(row.over || now, now) : 0;
      const late = over && now >= over + DAY;
      if (late || over !== row.over) await this.#change(row, (kept) => (late ? wiped(kept, "expired") : { ...kept, over }));
      if (late) continue;
      if (over) return { ...(await outcomeOf(row, again)), due: over + DAY, reason: OVER };
      try {
        const sent = await this.#send(row, route, fresh);
        return outcomeOf({ ...sent, ending: "delivered" }, again);
      } catch (error) {
        if (error instanceof Reseal && attempt < TRIES) {
          fresh = true;
          hurry = true;
          continue;
        }
        if (error instanceof Never) continue;
        if (!(error instanceof Later || error instanceof Reseal)) throw error;
        await this.#postpone(row.key, error instanceof Later ? error.seconds : 0);
        const outcome = await outcomeOf(await this.#kept(key), again);
        return outcome.state === "waiting" ? { ...outcome, reason: error.message } : outcome;
      }
    }
  }

  /** Seal if need be, send, and mark what came of it. */
  async #send(row: Row, route: Route, fresh: boolean): Promise<Row> {
    if (globalThis.navigator?.onLine === false) throw new Later("there is no connection");
    const ready = await this.#sealed(row, route, fresh);
    const trying = await this.#change(ready, (now) => ({ ...now, doubt: now.doubt + 1 }));
    if (!trying) throw new Later("another page has sent or deleted it");
    const reply = await ask(this.#fetch, `${route.shuffler.url}/v1/surveys/${row.survey}/reports`, joined(ready.sealed, ready.code ?? NOTHING));
    try {
      taken(reply);
    } catch (error) {
      await this.#change(ready, (now) => {
        const unsent: Row = { ...now, doubt: now.doubt - 1, refusal: error instanceof Unadmitted ? error.problem : "" };
        if (error instanceof Never) return wiped(now, "refused");
        if (error instanceof Reseal) return unsent.doubt ? wiped(now, "lost") : unsent;
        return error instanceof Later && error.unsent ? unsent : now;
      });
      throw error;
    }
    // If that cannot be written it stays in doubt, and the same bytes are sent again, which count once.
    await this.#change(ready, (now) => wiped(now, "delivered")).catch(() => {});
    return ready;
  }

  /** The report in the bytes that are sent: as they are if they may have been sent before. */
  async #sealed(row: Row, route: Route, fresh: boolean): Promise<Row> {
    if (row.keys && row.doubt) return row;
    let keys;
    try {
      keys = await keysOf(row.survey, route, this.#store, this.#fetch, this.#now(), fresh);
    } catch (error) {
      if (row.keys && !fresh && error instanceof Later) return row;
      throw error;
    }
    if (row.keys === keys.named) return row;
    const { named } = keys;
    const { slots, shapes = [[slots, row.messages.length / slots]] } = route;
    const sealed = await seal(unhex(row.survey)!, row.messages, shapes, keys, route.absent).catch(() => {
      throw new ShoalError("keys", "The keys of this survey cannot be used.");
    });
    await this.#change(row, (now) => (now.doubt ? now : { ...now, sealed, keys: named }));
    return this.#kept(row.key);
  }

  /** Twice as long after each time, shortened by up to a half at random. */
  async #postpone(key: string, asked: number): Promise<void> {
    await this.#store.run(async (box) => {
      const row = await box.get<Row>(key);
      if (!row || row.ending) return;
      const longest = Math.min(LONGEST_WAIT, 2 ** Math.min(row.waits, 12));
      const wait = Math.max(longest * (0.5 + pick(below, 1 << 30) / 2 ** 31), Math.min(asked, LONGEST_WAIT));
      await box.put({ ...row, waits: row.waits + 1, due: this.#now() + Math.ceil(wait) } as Row);
    });
  }
}

const isInvited = ({ admission }: Survey): boolean => admission.kind === "invited";

const notInvited = (): ShoalError => new ShoalError("invitation", "This survey is for people who were invited: it needs your invitation.");

const optedOut = (): ShoalError => new ShoalError("policy", "You have opted out; opt in again to take part.");

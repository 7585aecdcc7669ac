/** <shoal-survey>: asks, tells what is promised, and hands the answer to the client. */

import { ShoalClient, ShoalError, type CodeProblem, type Outcome, type Policy, type Survey } from "../index.js";
import { secretOf } from "../invitation.js";
import { DEFAULTS } from "../policy.js";
import { chooser, shows, type Chooser } from "./choosing.js";
import { found, h } from "./dom.js";
import { keep, persist, sending, sendOthers, serve, syncLater, unserve } from "./serving.js";
import { failed, form, invitationField, promised, shadow, statement, told } from "./view.js";
import * as words from "./words.js";

const FEWEST = DEFAULTS.minimum; // reports of a batch that nobody has to allow
const PAUSE = 30; // seconds between tries of which nobody knows when they are due
const RETRY = new Set(["network", "storage", "keys", "invitation"]);

export class ShoalSurvey extends HTMLElement {
  #client: ShoalClient | null = null;
  #survey!: Survey;
  #root!: ParentNode & Node;
  #form: HTMLFormElement | null = null;
  #told!: HTMLElement;
  #failed!: HTMLElement;
  #chooser!: Chooser;
  #policy: Partial<Policy> = {};
  #invitation = ""; // as the link, or the site, hands it over
  #typed: HTMLInputElement | null = null; // where it is typed in, if it is not handed over
  #begun = false;
  #busy = false;
  #waits = false;
  #over = false; // what became of the last report was told, and stays
  #occasion = 1;
  #timer = 0;
  #flushing = 0;
  #unsent = false; // what waits was never sealed, so that no try was made to send it

  connectedCallback(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.#prepare();
    void this.#try(() => this.#begin());
  }

  get #base(): string {
    const given = this.getAttribute("analyzer") ?? "/";
    return new URL(given, document.baseURI).href.replace(/\/$/, "");
  }

  get #id(): string {
    return this.getAttribute("survey") ?? "";
  }

  /** Takes over what the server has made, or makes the first of it. */
  #prepare(): void {
    this.#form = this.querySelector("form");
    this.#root = this.#form === null ? shadow(this) : this;
    if (this.#form === null) this.#root.append(told(), failed());
    this.#told = found(this.#root, ".told");
    this.#failed = found(this.#root, ".failed");
    this.#invitation = this.#form === null ? (this.getAttribute("invitation") ?? "") : received();
    this.#say([words.LOADING]);
  }

  async #begin(): Promise<void> {
    await this.#open();
    const own = this.#form !== null;
    window.addEventListener("online", () => {
      void this.#flush(true);
      if (own) sendOthers(this.#id);
    });
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") void this.#flush();
    });
    if (own) window.addEventListener("hashchange", () => location.reload()); // another link in the same window
    const worker = this.getAttribute("offline");
    if (own && worker !== null) {
      serve(worker, (outcomes) => void this.#hear(outcomes));
      sendOthers(this.#id);
    }
    const before = this.#sent(); // it may be over by now
    this.#survey = await this.#opened().load(this.#base, this.#id);
    if (own) keep(this.#base, this.#survey);
    await this.#show(own);
    await this.#look();
    await this.#hear(await before);
  }

  async #open(): Promise<void> {
    this.#client?.close();
    this.#client = await ShoalClient.open({ policy: this.#policy });
    this.#client.on("change", () => void this.#look());
  }

  #opened(): ShoalClient {
    if (this.#client === null) throw new ShoalError("unsupported", "The store is not open.");
    return this.#client;
  }

  async #show(own: boolean): Promise<void> {
    if (own) {
      if (!shows(this.#survey, this.#fieldset))
        throw new ShoalError("tampered", "The page shows another question than the survey has.");
    } else {
      const said = await promised(this.#base, this.#survey);
      this.#form = form(this.#survey, said);
      this.#told.before(this.#form);
      this.#told.after(...statement(this.#base, this.#survey, said, this.hasAttribute("compact")));
      found(this.#form, ".leaves").after(this.#failed); // above the answers, as the server does
    }
    this.#root.append(this.#forgetting());
    this.#chooser = chooser(this.#survey, this.#fieldset);
    if (this.#survey.admission.kind === "invited") await this.#expect();
    this.#form?.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#alert();
      void this.#try(() => this.#send()).then(() => this.#seen());
    });
  }

  /** An invitation: said to be there, or asked for. */
  async #expect(): Promise<void> {
    const whole = await secretOf(this.#invitation).catch(() => null);
    if (whole) return this.#fieldset.append(h("p", { class: "invited" }, words.INVITED));
    this.#askForInvitation();
    if (this.#invitation) this.#alert(words.TITLES.invitation, words.CUT_OFF);
  }

  #askForInvitation(): void {
    this.#typed = invitationField();
    this.#typed.value = this.#invitation;
    this.#fieldset.append(h("label", { class: "field" }, words.INVITATION, this.#typed));
  }

  /** Says who has worked out the promise, if the person's policy allows it. */
  #check(): void {
    const checked = this.#opened().check(this.#survey);
    found(this.#root, ".checked").textContent = words.checkedBy(this.#survey, checked);
    found(this.#root, ".bound").textContent = words.ownBound(this.#survey, checked);
  }

  /** The same where nothing is asked any more: what hinders an answer does not matter, unless the
   *  person has said to take no part. */
  #checkGently(): void {
    try {
      this.#check();
    } catch (error) {
      if (!(error instanceof ShoalError) || isOut(error)) throw error;
    }
  }

  /** After something was pressed, what hinders it is in sight, and read out. */
  #seen(): void {
    if (this.#failed.firstChild === null) return;
    if (!this.#fieldset.matches(":focus-within")) this.#failed.focus();
    this.#failed.scrollIntoView({ block: "nearest" });
  }

  get #fieldset(): HTMLFieldSetElement {
    return found(this.#form ?? this.#root, "fieldset");
  }

  /** Shows where this person stands: to answer, answered, or waiting to be sent. */
  async #look(): Promise<void> {
    await this.#try(() => this.#looked());
  }

  async #looked(): Promise<void> {
    if (this.#busy || this.#survey === undefined || this.#form === null) return;
    const entries = await this.#opened().ledger();
    const entry = entries.find((each) => each.survey === this.#survey.id);
    const used = entry?.reports ?? 0;
    const waited = this.#waits;
    this.#waits = (entry?.waiting ?? 0) > 0;
    this.#waits ||= waited && this.#flushing > 0; // what became of it is told in a moment
    if (this.#waits ? waited : this.#over && !waited) return;
    if (!this.#waits && !waited && used < this.#survey.reportsPerPerson) return this.#ask(used + 1);
    this.#checkGently();
    if (this.#waits && entry?.refusal) this.#uninvited(entry.refusal, used);
    else if (this.#waits) this.#wait();
    else this.#say(waited ? words.GONE : words.already(this.#survey));
  }

  /** Opens the form, if the person's policy allows it. */
  #ask(occasion: number): void {
    this.#check();
    this.#over = false;
    this.#occasion = occasion;
    const several = this.#survey.reportsPerPerson;
    const send = found<HTMLButtonElement>(this.#form ?? this.#root, "[type=submit]");
    send.textContent = several > 1 ? `Send report ${occasion} of ${several}` : "Send";
    this.#form?.classList.remove("closed");
    this.#enable(true);
    this.#say([]);
  }

  /** One by one: what is wrong is told within the fieldset, with a button, which stays on. */
  #enable(on: boolean): void {
    if (this.#form === null) return;
    this.#fieldset.disabled = false;
    for (const field of this.#form.querySelectorAll<HTMLInputElement | HTMLButtonElement>("input, [type=submit]"))
      field.disabled = !on;
  }

  async #send(): Promise<void> {
    const chosen = this.#chooser.answer();
    if ("wrong" in chosen) {
      this.#alert(chosen.wrong);
      return chosen.where.focus();
    }
    this.#busy = true;
    this.#enable(false);
    this.#say([words.SENDING]);
    if (this.#root === this) persist();
    try {
      const invitation = this.#typed?.value ?? this.#invitation;
      const shown = this.#survey.admission.kind === "invited" ? { invitation } : {};
      this.#tell(await this.#opened().report(this.#survey, chosen.value, { occasion: this.#occasion, ...shown }));
      this.#form?.reset(); // whoever comes next at this screen does not see it
    } catch (error) {
      this.#busy = false;
      await this.#look(); // it may have been drawn, and wait
      if (error instanceof ShoalError && error.kind === "invitation") this.#typed?.focus();
      throw error;
    } finally {
      this.#busy = false;
    }
    this.#told.focus();
  }

  #tell(outcome: Outcome): void {
    this.#waits = outcome.state === "waiting";
    this.#unsent = this.#waits && outcome.digest === "";
    this.#over = !this.#waits;
    if (outcome.refusal) return this.#uninvited(outcome.refusal, outcome.occasion);
    if (this.#over && outcome.occasion >= this.#survey.reportsPerPerson) this.#forgetInvitation();
    if (this.#waits) {
      this.#wait(outcome.reason, outcome.due);
      syncLater();
    } else if (outcome.state === "abstained") this.#say(words.ABSTAINED, ...this.#again(outcome.occasion));
    else if (outcome.state === "given-up") this.#say(words.givenUp(outcome.reason));
    else if (outcome.again) this.#say(words.already(this.#survey));
    else
      this.#say(
        words.sent(this.#survey, outcome.occasion),
        this.#results(),
        ...this.#again(outcome.occasion),
      );
  }

  /** Sends what waits: the same bytes. */
  async #flush(everything = false): Promise<void> {
    if (this.#busy || this.#client === null) return;
    await this.#hear(await this.#sent(everything));
  }

  /** Of this survey alone: the page's policy lets it ask no other shuffler, and a report that the
   *  browser holds back would count as one that may have arrived. */
  async #sent(everything = false): Promise<Outcome[]> {
    this.#flushing += 1;
    const outcomes = await this.#opened().flush(everything, (survey) => survey === this.#id).catch(() => []);
    this.#flushing -= 1;
    return outcomes;
  }

  async #hear(outcomes: readonly Outcome[]): Promise<void> {
    const own = outcomes.find((each) => each.survey === this.#survey?.id);
    if (own !== undefined && this.#form !== null && !this.#busy) this.#tell({ ...own, again: false });
    else await this.#look();
  }

  /** Says so, and tries again by itself when it is due: while the page is open, that is. */
  #wait(reason = "", due = 0): void {
    this.#say(words.waiting(reason), this.#button("Try now", () => this.#flush(true)));
    clearTimeout(this.#timer);
    const seconds = due > 0 ? due - Date.now() / 1000 : PAUSE;
    this.#timer = window.setTimeout(() => void this.#flush(), 1000 * Math.max(1, seconds) + 500);
  }

  /** Says why a report waits for another invitation, and takes one. */
  #uninvited(refusal: CodeProblem, occasion: number): void {
    clearTimeout(this.#timer);
    const field = invitationField();
    const send = this.#button("Send with this invitation", async () => {
      this.#alert();
      this.#busy = true;
      try {
        this.#tell({ ...(await this.#opened().admit(this.#survey, field.value, occasion)), again: false });
      } finally {
        this.#busy = false;
      }
      this.#told.focus();
    });
    const again = refusal === "code_unknown" ? [this.#button("Try the same once more", () => this.#flush(true))] : [];
    const label = h("label", { class: "field" }, words.INVITATION, field);
    this.#say(words.unadmitted(refusal), label, send, ...again);
  }

  #forgetInvitation(): void {
    this.#invitation = "";
    if (this.#root === this) history.replaceState(null, "");
    if (this.#typed !== null) this.#typed.value = "";
    const shown = this.#fieldset.querySelector(".invited");
    if (shown !== null) this.#askForInvitation();
    shown?.remove();
  }

  /** When and where the results appear: at an address, if everybody may read them. */
  #results(): HTMLElement {
    const [when, where] = words.results(this.#survey);
    const address = this.getAttribute("results");
    return h("p", {}, when, address === null ? where : h("a", { href: address }, "on the results page"), ".");
  }

  #again(used: number): HTMLElement[] {
    if (used >= this.#survey.reportsPerPerson) return [];
    return [
      this.#button("Answer once more", async () => {
        this.#ask(used + 1);
        this.#fieldset.querySelector("input")?.focus();
      }),
    ];
  }

  #button(text: string, does: () => Promise<void>, kind = "quiet"): HTMLElement {
    const made = h("button", { type: "button", class: kind }, text);
    made.addEventListener("click", () => void this.#try(does));
    return h("p", {}, made);
  }

  #optingIn(): HTMLElement {
    return this.#button("Take part again", async () => {
      await this.#opened().optIn();
      found(this.#root, ".forgotten").textContent = "";
      await this.#look();
    });
  }

  #forgetting(): HTMLElement {
    const done = h("p", { class: "forgotten", role: "status", tabindex: "-1" });
    const forget = async (): Promise<void> => {
      const waited = this.#waits;
      this.#waits = this.#over = false;
      this.#forgetInvitation();
      await this.#opened().optOut();
      const unsent = this.#unsent && !(await sending(this.#id));
      await unserve();
      await this.#look();
      done.textContent = words.forgotten(waited, unsent);
      done.focus();
    };
    return h(
      "details",
      {},
      h("summary", {}, "Forget everything kept on this device"),
      h("p", {}, words.FORGET),
      this.#button("Forget", forget, "quiet forget"),
      done,
    );
  }

  /** Does something, and says in words what hinders it. */
  async #try(does: () => Promise<void>): Promise<void> {
    try {
      await does();
    } catch (error) {
      this.#refuse(error);
    }
  }

  #refuse(error: unknown): void {
    if (!this.#waits) this.#say([]);
    if (!(error instanceof ShoalError && RETRY.has(error.kind))) this.#enable(false);
    if (!(error instanceof ShoalError)) {
      console.error(error);
      return this.#alert(words.DEFECT);
    }
    if (isOut(error)) return this.#say(words.OPTED_OUT, this.#optingIn());
    const allowable = error.kind === "policy" ? this.#allowable() : null;
    if (allowable === null)
      return this.#alert(words.TITLES[error.kind], ...words.refusal(error, this.#survey).filter(Boolean));
    const [why, policy] = allowable;
    const allow = this.#button("Allow it for this survey", async () => {
      this.#policy = { ...this.#policy, ...policy };
      await this.#open();
      this.#alert();
      await this.#look();
      this.#fieldset.querySelector("input")?.focus();
    });
    this.#alert(words.TITLES.policy, `${why} Nothing was sent.`, allow);
  }

  /** What the person may allow beyond the limits of the page: a small crowd of people who were invited, and
   *  that the crowd alone hides an answer. */
  #allowable(): [why: string, policy: Partial<Policy>] | null {
    const { admission, minimum, localEpsilon } = this.#survey ?? {};
    if (admission?.kind === "invited" && minimum! < FEWEST && !this.#policy.minimum)
      return [words.fewPeople(minimum!), { minimum: minimum! }];
    if (localEpsilon === Infinity && !this.#policy.localEpsilon) return [words.CROWD_ONLY, { localEpsilon }];
    return null;
  }

  /** What is going on; the form is shown only while nothing is said. */
  #say([title, ...texts]: readonly string[], ...more: readonly Node[]): void {
    if (title !== undefined) this.#failed.replaceChildren();
    if (texts.length > 0) this.#form?.classList.add("closed");
    this.#told.classList.toggle("good", title === words.SENT);
    this.#told.replaceChildren(...paragraphs(title, ...texts), ...more);
  }

  #alert(title?: string, ...texts: readonly (string | Node)[]): void {
    this.#failed.replaceChildren(...paragraphs(title, ...texts));
  }
}

/**
 * The invitation after the # of a link, which no server is told. It is taken out of the address, where
 * others might see or copy it, and stays with this entry of the tab's history, for when it is loaded again.
 */
function received(): string {
  const handed = location.hash.slice(1);
  if (handed) history.replaceState({ invitation: handed }, "", location.pathname + location.search);
  return (history.state as { invitation?: string } | null)?.invitation ?? "";
}

const isOut = ({ message }: ShoalError): boolean => /opted out/.test(message);

function paragraphs(title?: string, ...texts: readonly (string | Node)[]): Node[] {
  if (title === undefined) return [];
  const rest = texts.map((text) => (typeof text === "string" ? h("p", {}, text) : text));
  return [h("p", {}, h("strong", {}, title)), ...rest];
}

/**
 * The calculator of the documentation site: one classic script, which works from a file too. It fills the
 * form in docs/account/calculator.md with life. What is long is computed in a worker made from the source
 * of this very script (`bundling.mjs` wraps it in a function that knows it); where a page may have no worker,
 * between two turns of the page instead.
 */

import { amplify, DRAWN, lawsOf, spreadOf, type AmplifyQuestion, type AmplifyStep, type Bounds } from "./amplification.js";
import { dots, drawn, swatch, type Curve, type Dot } from "./chart.js";
import { central, local, plan, type Option, type PlanQuestion, type PlanStep } from "./planning.js";
import { PUBLISHED, type Published } from "./published.js";
import { commandsOf, complaint, defaultDelta, deltaWarning, fieldsOf, FIELDS, fragmentOf, numberOf, questionOf, typedIn, type Ask, type Question, type Typed } from "./questions.js";
import { amount, counted, down, plain, upTo } from "./text.js";

type Step = AmplifyStep | PlanStep;

/** The source of this script, as an expression that runs it. */
declare const calculatorSource: (() => string) | undefined;

const stepsOf = (question: Question): Generator<Step> => (question.ask === "plan" ? plan(question) : amplify(question));

// The worker: a question comes, its steps go.

interface Scope {
  onmessage: ((event: MessageEvent<Question>) => void) | null;
  postMessage(message: Step | null): void;
}

function serve(scope: Scope): void {
  scope.onmessage = ({ data }) => {
    for (const step of stepsOf(data)) scope.postMessage(step);
    scope.postMessage(null);
  };
}

// The page.

const WAIT = 250; // milliseconds after a key before anything is computed
const THEORY = "../theory/";
const TITLES: Readonly<Record<string, string>> = {
  any: "any ε₀-DP randomizers, even chosen adaptively",
  grr: "k-ary randomized response",
  hadamard: "Hadamard response",
  projective: "projective geometry response",
  subset: "subset selection",
  unary: "unary encoding",
  hashing: "local hashing",
};

/** Where docs/analyse/randomizers.md describes each. */
const RANDOMIZERS = "../analyse/randomizers.html#";
const SECTIONS: Readonly<Record<string, string>> = {
  grr: "randomized-response-grr",
  hadamard: "hadamard-response-hadamard",
  projective: "projective-geometry-response-projective",
  subset: "subset-selection-subset",
  unary: "unary-encoding-unary",
  hashing: "local-hashing-hashing",
};
const TIGHT = 1e-3; // of ε₀: nearer to it, the library warns

const made = <K extends keyof HTMLElementTagNameMap>(tag: K, text = "", attributes: Record<string, string> = {}): HTMLElementTagNameMap[K] => {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

/** Runs one question at a time: a new one ends the one before. */
class Runner {
  private worker: Worker | null = null;
  private turn = 0;
  private readonly address: string | null;

  constructor() {
    let address: string | null = null;
    try {
      if (typeof calculatorSource === "function") address = URL.createObjectURL(new Blob([calculatorSource()], { type: "text/javascript" }));
    } catch {
      // No worker then.
    }
    this.address = address;
  }

  /** Every step of the question, then null. */
  run(question: Question, take: (step: Step | null) => void): void {
    const turn = ++this.turn;
    this.worker?.terminate();
    this.worker = null;
    const here = () => {
      const steps = stepsOf(question);
      const next = () => {
        if (turn !== this.turn) return;
        const { value, done } = steps.next();
        take(done ? null : (value as Step));
        if (!done) setTimeout(next);
      };
      setTimeout(next);
    };
    if (!this.address) return here();
    try {
      const worker = new Worker(this.address);
      let heard = false;
      this.worker = worker;
      worker.onmessage = ({ data }: MessageEvent<Step | null>) => {
        heard = true;
        if (turn === this.turn) take(data);
      };
      worker.onerror = (event) => {
        event.preventDefault();
        if (turn === this.turn && !heard) here();
      };
      worker.postMessage(question);
    } catch {
      here();
    }
  }
}

class Page {
  private readonly form: HTMLFormElement;
  private readonly runner = new Runner();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private question: Question | null = null;
  private edited = false; // since the question was asked
  private answered = false; // the question, not an earlier one
  private asked: Ask;
  private readonly deltas: Record<Ask, string> = { amplify: "", plan: "" }; // typed for each question
  private redraw: (() => void) | null = null;

  constructor(private readonly root: HTMLElement) {
    this.form = this.find("form") as HTMLFormElement;
    this.asked = this.typed.ask;
    this.find(".calculator-missing").remove();
    this.form.hidden = false;
    this.find(".calculator-answer").hidden = false;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(true);
    });
    this.form.addEventListener("input", () => this.soon());
    this.find(".calculator-copy").addEventListener("click", () => void this.copy());
    addEventListener("hashchange", () => this.restore(location.hash) && this.ask(false));
    let width = 0;
    new ResizeObserver(() => {
      const now = this.width;
      if (now !== width) this.redraw?.();
      width = now;
    }).observe(this.find(".calculator-picture"));
    this.restore(location.hash);
    this.ask(false);
  }

  private find(selector: string): HTMLElement {
    return this.root.querySelector<HTMLElement>(selector)!;
  }

  private get width(): number {
    return Math.max(260, Math.min(860, Math.floor(this.find(".calculator-picture").clientWidth)));
  }

  private get typed(): Typed & { ask: Ask } {
    return Object.fromEntries(new FormData(this.form)) as unknown as Typed & { ask: Ask };
  }

  /** The question of a link, in the fields; whether it had one. */
  private restore(fragment: string): boolean {
    const typed = typedIn(fragment);
    if (!typed) return false;
    this.find(".calculator-copied").textContent = "";
    for (const [name, value] of Object.entries({ delta: "", ...typed })) {
      const field = this.form.elements.namedItem(name);
      if (field instanceof HTMLInputElement || field instanceof RadioNodeList) field.value = value;
      else if (field instanceof HTMLSelectElement && [...field.options].some((each) => each.value === value)) field.value = value;
    }
    this.asked = typed.ask;
    return true;
  }

  private soon(): void {
    clearTimeout(this.timer);
    this.find(".calculator-copied").textContent = "";
    this.swapDeltas();
    this.edited = true;
    this.show();
    this.mark();
    this.timer = setTimeout(() => this.ask(true), WAIT);
  }

  /** Another question has a δ of its own. */
  private swapDeltas(): void {
    const { ask, delta = "" } = this.typed;
    if (ask === this.asked) return;
    this.deltas[this.asked] = delta;
    (this.form.elements.namedItem("delta") as HTMLInputElement).value = this.deltas[ask];
    this.asked = ask;
  }

  /** Dims what does not belong to what the fields hold, and says why. */
  private mark(): void {
    const { edited, answered, typed } = this;
    const { classList } = this.find(".calculator-answer");
    classList.toggle("edited", edited);
    classList.toggle("stale", edited || !answered);
    const hint = !edited ? (answered ? "" : "Computing …") : questionOf(typed.ask, typed) ? "Edited: press Compute." : "Correct the marked field, then press Compute.";
    const element = this.find(".calculator-hint");
    if (element.textContent !== hint) element.textContent = hint;
  }

  /** The fields of the question, and what is wrong with what they hold. */
  private show(): void {
    const { typed } = this;
    const wanted = fieldsOf(typed.ask, typed);
    for (const field of this.root.querySelectorAll<HTMLElement>("[data-field]")) {
      const name = field.dataset.field!;
      field.hidden = name === "randomizer" ? typed.ask !== "amplify" : !wanted.includes(name);
      if (!(name in FIELDS)) continue;
      const text = field.hidden ? "" : complaint(name, typed[name] ?? "");
      const note = field.querySelector(".calculator-note")!;
      if (note.textContent !== text) note.textContent = text;
      const input = field.querySelector("input")!;
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
    const n = complaint("n", typed.n ?? "") ? 1 : numberOf(typed.n!);
    (this.form.elements.namedItem("delta") as HTMLInputElement).placeholder = down(defaultDelta(n));
  }

  private ask(linked: boolean): void {
    clearTimeout(this.timer);
    this.show();
    const { typed } = this;
    const question = questionOf(typed.ask, typed);
    const answer = this.find(".calculator-answer");
    this.edited = !question;
    if (!question) return this.mark();
    if (linked) this.remember(fragmentOf(question));
    if (this.question && fragmentOf(question) === fragmentOf(this.question)) return this.mark();
    this.question = question;
    this.answered = false;
    this.mark();
    answer.setAttribute("aria-busy", "true");
    const commands = commandsOf(question);
    this.find(".calculator-shell").textContent = `$ ${commands.shell}`;
    this.find(".calculator-python").textContent = `>>> import shoal\n>>> ${commands.python}`;
    const take = question.ask === "plan" ? this.planned(question) : this.amplified(question);
    this.runner.run(question, (step) => {
      if (step) take(step);
      else answer.removeAttribute("aria-busy");
    });
  }

  private remember(fragment: string): void {
    try {
      history.replaceState(null, "", fragment);
    } catch {
      // The address of a sandboxed page cannot change: its link can be copied.
    }
  }

  private async copy(): Promise<void> {
    const { typed } = this;
    const question = questionOf(typed.ask, typed);
    const note = this.find(".calculator-copied");
    if (!question) {
      note.textContent = "There is no question to link to yet.";
      return;
    }
    const link = location.href.split("#")[0] + fragmentOf(question);
    try {
      await navigator.clipboard.writeText(link);
      note.textContent = "Copied: the link asks the same question.";
    } catch {
      this.remember(fragmentOf(question));
      note.textContent = "The address of this page is the link.";
    }
  }

  private say({ delta, n }: Question, result: string, sentence: (Node | string)[]): void {
    this.answered = true;
    this.mark();
    this.find(".calculator-result").textContent = result;
    this.find(".calculator-sentence").replaceChildren(...sentence);
    const warning = deltaWarning(delta, n);
    this.find(".calculator-warning").textContent = warning && `Warning: ${warning}.`;
  }

  /** A table, each row a list of cells; those of the first column name their rows. */
  private table(caption: string, heads: readonly string[], rows: readonly (readonly [string, ...(Node | string)[]])[], numbers: ReadonlySet<number>): void {
    const table = made("table");
    table.append(made("caption", caption));
    const head = table.createTHead().insertRow();
    heads.forEach((text, i) => head.append(made("th", text, { scope: "col", class: numbers.has(i) ? "number" : "" })));
    const body = table.createTBody();
    for (const [kind, name, ...cells] of rows) {
      const row = body.insertRow();
      row.className = kind;
      const first = made("th", "", { scope: "row" });
      first.append(name!);
      row.append(first);
      cells.forEach((cell, i) => {
        const made_ = row.insertCell();
        made_.className = numbers.has(i + 1) ? "number" : "";
        made_.append(cell);
      });
    }
    this.find(".calculator-table").replaceChildren(table);
  }

  // Question A.

  private amplified(question: AmplifyQuestion): (step: Step) => void {
    const points: { n: number; epsilon: number; bounds: Bounds }[] = [];
    let answer: number | null = null;
    this.redraw = () => this.drawAmplified(question, points, answer);
    this.redraw(); // axes at once: nothing moves when the curve comes
    return (step) => {
      if (step.step === "answer") {
        answer = step.epsilon;
        this.sayAmplified(question, step.epsilon, step.theorem, step.bounds);
      } else if (step.step === "point") points.push(step);
      this.redraw?.();
    };
  }

  private sayAmplified(question: AmplifyQuestion, epsilon: number, theorem: string, bounds: Bounds): void {
    const { localEpsilon, n, delta, randomizer } = question;
    const shown = upTo(epsilon, localEpsilon);
    const page = randomizer === "any" ? "optimal-clones.html" : "blanket.html";
    const who = `${counted(n)} shuffled reports, each ε₀ = ${plain(localEpsilon)} by itself, keep ε ≤ ${shown} at δ = ${plain(delta)}`;
    const gain = epsilon >= localEpsilon * (1 - TIGHT)
      ? " ε is hardly below ε₀, if at all: that much holds without any shuffling."
      : epsilon === 0
        ? " δ alone covers all that the reports tell."
        : ` That is ε₀ divided by ${amount(localEpsilon / epsilon)}.`;
    this.say(question, `ε ≤ ${shown}`, [
      `${who}: `,
      made("a", theorem, { href: THEORY + page }),
      `, for ${TITLES[randomizer]!}.${gain}`,
    ]);
    const listed = PUBLISHED.map((bound) => ({ bound, value: bounds[bound.name] ?? null })).sort(
      (one, other) => (one.value ?? Infinity) - (other.value ?? Infinity) || 0,
    );
    const own: [string, ...(Node | string)[]] = ["best", "this page", shown, made("a", theorem, { href: THEORY + page })];
    this.table(
      "Beside the published bounds",
      ["Bound", "ε", "Theorem"],
      [own, ...listed.map(({ bound, value }) => publishedRow(bound, value, localEpsilon))],
      new Set([1]),
    );
  }

  private drawAmplified(question: AmplifyQuestion, points: readonly { n: number; epsilon: number; bounds: Bounds }[], answer: number | null): void {
    const { localEpsilon, n, delta } = question;
    const least = Math.min(...lawsOf(question).map((law) => spreadOf(law, 1e9)));
    const y = [10 ** Math.floor(Math.log10(0.5 * Math.max(least, 1e-9))), localEpsilon * 2.2] as const;
    const below = (value: number | null) => value !== null && value > 0 && value < localEpsilon * (1 - 1e-5);
    const ours = points.map((each) => [each.n, Math.min(Math.max(each.epsilon, y[0] / 10), localEpsilon)] as const);
    const curves: Curve[] = DRAWN.map((name) => ({
      name,
      points: points.filter(({ bounds }) => below(bounds[name] ?? null)).map((each) => [each.n, each.bounds[name]!] as const),
    }));
    curves.push({ name: "ours", points: ours });
    const chart = drawn(
      {
        x: [10, 1e9],
        y,
        xLabel: "people n",
        yLabel: `ε at δ = ${plain(delta)}`,
        description: `ε over the number of people, from 10 to a billion, on logarithmic axes. At ${counted(n)} people it is ${answer === null ? "not known yet" : upTo(answer, localEpsilon)}.`,
        curves,
        level: { y: localEpsilon, label: `ε₀ = ${plain(localEpsilon)}, without a shuffler`, short: `ε₀ = ${plain(localEpsilon)}` },
        ...(answer !== null && answer > y[0] && n >= 10 ? { mark: [n, answer] as const } : {}),
      },
      this.width,
    );
    this.find(".calculator-picture").replaceChildren(chart);
    const titles = new Map(PUBLISHED.map((bound) => [bound.name, bound.title]));
    const shown = ["ours", ...DRAWN.filter((name) => curves.some((curve) => curve.name === name && curve.points.length > 1))];
    this.find(".calculator-legend").replaceChildren(
      ...shown.map((name) => {
        const item = made("li");
        item.append(swatch(name), titles.get(name) ?? "this page");
        return item;
      }),
    );
  }

  // Question B.

  private planned(question: PlanQuestion): (step: Step) => void {
    this.redraw = null;
    return (step) => {
      if (step.step !== "plan") return;
      const [best] = step.options;
      if (!best?.found) return;
      const { localEpsilon } = best.found;
      this.say(question, `Run ${best.name} with ε₀ = ${down(localEpsilon)}`, [
        `${step.reason[0]!.toUpperCase()}${step.reason.slice(1)}. That keeps ε = ${plain(question.epsilon)} at δ = ${plain(question.delta)} among ${counted(question.n)} people (`,
        made("a", "privacy blanket", { href: `${THEORY}blanket.html` }),
        "), if the shuffler hides who sent which report and does not collude with the analyzer; ε₀ of each report needs no trust.",
      ]);
      this.plans(question, step.options);
      this.redraw = () => this.drawPlan(question, step.options);
      this.redraw();
    };
  }

  private plans(question: PlanQuestion, options: readonly Option[]): void {
    const linked = (name: string) => made("a", name, { href: RANDOMIZERS + SECTIONS[name]! });
    const rows: [string, ...(Node | string)[]][] = options.map(({ name, found, remark = "" }, i) =>
      found
        ? [i ? "" : "best", linked(name), down(found.localEpsilon), amount(found.errors.l2), amount(found.errors.cell), found.bits.toFixed(1)]
        : ["weak", linked(name), "–", remark, "", ""],
    );
    const [trusted, alone] = [central(question), local(question)];
    rows.push(["weak", "a trusted curator", "–", amount(trusted.l2), amount(trusted.cell), ""]);
    rows.push(["weak", "no shuffler", plain(question.epsilon), amount(alone.l2), amount(alone.cell), ""]);
    this.table(
      "Errors of the counts, in people; per answer: of one that nobody gave",
      ["Randomizer", "ε₀", "L2 error", "Per answer", "Bits"],
      rows,
      new Set([1, 2, 3, 4]),
    );
  }

  private drawPlan(question: PlanQuestion, options: readonly Option[]): void {
    const row = (label: string, value: number, kind: Dot["kind"]): Dot => ({ label, value, shown: amount(value), kind });
    const rows = [
      row("trusted curator", central(question).l2, "reference"),
      ...options.flatMap(({ name, found }, i) => (found ? [row(name, found.errors.l2, i ? "other" : "best")] : [])),
      row("no shuffler", local(question).l2, "reference"),
    ];
    const description = `Expected L2 error of the counts: ${rows.map(({ label, shown }) => `${label} ${shown}`).join(", ")}.`;
    this.find(".calculator-picture").replaceChildren(dots(rows, "expected L2 error of the counts, in people", description, this.width));
    this.find(".calculator-legend").replaceChildren();
  }
}

function publishedRow(bound: Published, value: number | null, localEpsilon: number): [string, ...(Node | string)[]] {
  const cell = made("span");
  cell.append(made("a", bound.title, { href: `${THEORY}published-bounds.html#the-catalog` }), `: ${bound.citation}`);
  if (bound.arxiv) cell.append(", ", made("a", `arXiv:${bound.arxiv}`, { href: `https://arxiv.org/abs/${bound.arxiv}` }));
  if (value === null) cell.append(` (needs ${bound.needs})`);
  else if (value >= localEpsilon * (1 - 1e-5)) cell.append(" (no amplification)");
  return [value === null ? "weak" : "", made("code", bound.name), value === null ? "–" : upTo(value, localEpsilon), cell];
}

if (typeof document === "undefined") serve(globalThis as unknown as Scope);
else {
  const root = document.getElementById("calculator");
  if (root) new Page(root);
}

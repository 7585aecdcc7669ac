// What the tests in Python ask of the calculator: a list of jobs on standard input, what came of each on
// standard output.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { common } from "../bundling.mjs";

const MODULES = ["amplification", "planning", "published", "questions", "text"];
const folder = mkdtempSync(join(tmpdir(), "shoal-calculator-"));
const outfile = join(folder, "calculator.mjs");
const contents = MODULES.map((name) => `export * as ${name} from "./src/calculator/${name}.js";`).join("\n");
await build({ ...common, stdin: { contents, resolveDir: common.absWorkingDir }, outfile, format: "esm" });
const { amplification, planning, published, questions, text } = await import(pathToFileURL(outfile).href);
rmSync(folder, { recursive: true });

const jobs = {
  /** ε of a question. */
  epsilon: (question) => amplification.amplified(amplification.lawsOf(question), question.n, question.delta),
  /** ε of every published bound, or null. */
  published: (query) => Object.fromEntries(published.PUBLISHED.map((bound) => [bound.name, published.publishedEpsilon(bound, query)])),
  /** The options, best first, beside a trusted curator and no shuffler. */
  plan(question) {
    const { options, reason } = [...planning.plan(question)].at(-1);
    return { options, reason, central: planning.central(question), local: planning.local(question) };
  },
  /** What is wrong with fields. */
  complaints: (typed) => Object.fromEntries(Object.entries(typed).map(([name, value]) => [name, questions.complaint(name, value)])),
  /** A link and what the library is asked, and the question that the link holds. */
  link({ ask, typed }) {
    const question = questions.questionOf(ask, typed);
    const fragment = questions.fragmentOf(question);
    const { ask: again, ...restored } = questions.typedIn(fragment);
    return { question, fragment, restored: questions.questionOf(again, restored), commands: questions.commandsOf(question) };
  },
  /** ε of a question as the page shows it. */
  answer: (question) => text.upTo(amplification.amplify(question).next().value.epsilon, question.localEpsilon),
  /** What the library warns of, and the δ that it takes where none is given. */
  warning: ({ delta, n }) => ({ warning: questions.deltaWarning(delta, n), delta: questions.defaultDelta(n) }),
  /** Numbers as they are shown, up and down. */
  shown: ({ values }) => values.map((value) => [text.up(value), text.down(value)]),
};

let input = "";
for await (const part of process.stdin) input += part;
process.stdout.write(JSON.stringify(JSON.parse(input).map(({ job, ...asked }) => jobs[job](asked))));

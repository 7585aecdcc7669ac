// The package as it is built: what is loaded at once, and what only when a survey needs it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { compressed, LARGEST_CLIENT, loadedWith } from "../bundling.mjs";
import { inside, root, utf8, vectors } from "./kit.mjs";

const LATER = "more_mechanisms.js";
const text = (told) => new TextDecoder().decode(inside.canonical.written(told));
const present = (survey) => text(inside.older.present(JSON.parse(survey)));
const early = vectors("reports").cases[0].survey;
const common = present(early);
const recorded = Object.fromEntries(vectors("mechanisms").mechanisms.map(({ name, survey }) => [name, present(survey)]));
const projective = recorded["projective, space"];
const bits = vectors("mechanisms").bits.map(({ survey }) => survey).find((survey) => survey.includes('"unary"'));
let folder, printed;

before(() => {
  folder = mkdtempSync(join(tmpdir(), "shoal-package-"));
  printed = execFileSync(process.execPath, ["build.mjs", "--no-types"], {
    cwd: join(root, "clients", "browser"),
    env: { ...process.env, SHOAL_DIST: join(folder, "dist"), SHOAL_ASSETS: join(folder, "assets"), SHOAL_SITE: join(folder, "site") },
    encoding: "utf8",
  });
  cpSync(join(folder, "dist"), join(folder, "offline"), { recursive: true });
  rmSync(join(folder, "offline", LATER));
});
after(() => rmSync(folder, { recursive: true }));

/** What the client in this folder says of surveys. */
async function reader(name) {
  const { ShoalClient, ShoalError } = await import(pathToFileURL(join(folder, name, "shoal-client.js")).href);
  const client = await ShoalClient.open({ name, fetch: () => assert.fail("nothing is asked for") });
  return async (survey) => {
    try {
      return (await client.survey(utf8(survey))).mechanism;
    } catch (error) {
      assert.ok(error instanceof ShoalError && !error.sent, error);
      return `${error.kind}: ${error.message}`;
    }
  };
}

test("what is loaded at once is within the limit", async () => {
  const files = [...(await loadedWith(join(folder, "dist", "shoal-client.js")))];
  const weight = files.map(compressed).reduce((sum, one) => sum + one, 0);
  assert.ok(weight > 10_000 && weight <= LARGEST_CLIENT, `${weight} bytes`);
  assert.ok(!files.some((file) => file.endsWith(LATER)));
  assert.ok(printed.includes(`the client: ${weight} compressed (at most ${LARGEST_CLIENT})`));
});

test("what is imported is counted, and by what is imported too", async () => {
  const made = join(folder, "made");
  mkdirSync(made);
  writeFileSync(join(made, "a.js"), 'import{b}from"./b.js";import("./c.js");b();');
  writeFileSync(join(made, "b.js"), 'export*from"./d.js";import"./a.js";');
  writeFileSync(join(made, "d.js"), "export let b=()=>1;");
  const found = [...(await loadedWith(join(made, "a.js")))];
  assert.deepEqual(found, ["a.js", "b.js", "d.js"].map((name) => join(made, name)));
});

test("other mechanisms are loaded when a survey needs one", async () => {
  const online = await reader("dist");
  assert.equal(await online(common), "grr");
  assert.equal(await online(early), "grr");
  assert.equal(await online(projective), "projective");
  assert.equal(await online(bits), "unary");
  for (const [name, survey] of Object.entries(recorded)) assert.equal(await online(survey), name.split(",")[0]);
  const whole = JSON.parse(projective);
  const [told] = whole.questions;
  const changed = (change) => online(text({ ...whole, questions: [{ ...told, ...change }] }));
  assert.match(await changed({ sampler: { ...told.sampler, q: 4 } }), /^tampered: .*sampler cannot be right/);
  assert.match(await changed({ mechanism: { ...told.mechanism, name: "laplace" } }), /^unsupported: /);
});

test("where they cannot be fetched, that is said, and other surveys are answered", async () => {
  const offline = await reader("offline");
  assert.equal(await offline(projective), "network: A part of this client that the survey needs cannot be fetched. Nothing was sent.");
  assert.match(await offline(bits), /^network: /);
  assert.match(await offline(early), /^network: /);
  assert.equal(await offline(common), "grr");
  assert.equal(await offline(recorded["hadamard, blocks"]), "hadamard");
});

test("outside of browsers it is refused in words", () => {
  const program = `
    const { ShoalClient, ShoalError } = await import(process.argv[1]);
    await ShoalClient.open().catch((error) => console.log(error instanceof ShoalError, error.kind, error.sent));
  `;
  const client = pathToFileURL(join(folder, "dist", "shoal-client.js")).href;
  const said = execFileSync(process.execPath, ["--input-type=module", "-e", program, client], { encoding: "utf8" });
  assert.equal(said, "true unsupported false\n");
});

test("what is bundled is no dependency, and its licence comes with it", () => {
  const own = (name) => readFileSync(join(root, "clients", "browser", name), "utf8");
  const told = JSON.parse(own("package.json"));
  assert.equal(told.dependencies, undefined);
  assert.ok(told.files.includes("LICENSE"));
  assert.equal(own("LICENSE"), readFileSync(join(root, "LICENSE"), "utf8"));
  for (const place of ["dist", "assets"]) {
    const notices = readFileSync(join(folder, place, "third-party.txt"), "utf8");
    for (const name of ["core", "common"]) {
      assert.ok(notices.includes(`@hpke/${name}\n`));
      assert.ok(notices.includes(own(`node_modules/@hpke/${name}/LICENSE`).trim()));
    }
  }
  assert.ok(!own("README.md").includes("](.."), "a link that leads out of the package");
  assert.ok(!own("package-lock.json").includes("://"), "the lock names no registry");
});

test("the scripts of the pages have everything in them", () => {
  for (const name of ["survey.js", "offline.js"]) {
    const script = readFileSync(join(folder, "assets", name), "utf8");
    assert.ok(script.includes("copies_steps") && !script.includes(LATER), name);
  }
});

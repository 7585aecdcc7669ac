// Builds the npm package into dist/, and the scripts of the pages into the Python package and the site.
//
//   dist/shoal-client.js + .d.ts      what `import "shoal-client"` gets
//   dist/more_mechanisms.js           what it loads for the surveys that need it
//   dist/third-party.txt              the licences of what is bundled, beside the pages' scripts too
//   src/shoal/web/assets/survey.js    the survey element with the client in it
//   src/shoal/web/assets/offline.js   the service worker
//   src/shoal/web/assets/dashboard.js
//   docs/_static/calculator.js        the calculator of the documentation site
//
// Prints what each weighs compressed, and fails if the client is too heavy: with what is loaded at
// once, but without what may be loaded later.

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { calculator, common, compressed, LARGEST_CLIENT, loadedWith, packaged } from "./bundling.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const assets = process.env.SHOAL_ASSETS ?? join(here, "..", "..", "src", "shoal", "web", "assets");
const dist = process.env.SHOAL_DIST ?? join(here, "dist");
const site = process.env.SHOAL_SITE ?? join(here, "..", "..", "docs", "_static");

const pages = {
  survey: "src/page/survey.ts",
  offline: "src/page/offline.ts",
  dashboard: "src/dashboard/dashboard.ts",
};

function declare() {
  const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");
  rmSync(join(dist, "index.d.ts"), { force: true });
  execFileSync(
    process.execPath,
    [compiler, "-p", join(here, "tsconfig.types.json"), "--outDir", dist],
    { stdio: "inherit" },
  );
}

/** What those who made the packages that are bundled ask to be told with every copy. */
function notices() {
  const from = join(here, "node_modules", "@hpke");
  return readdirSync(from)
    .map((name) => `@hpke/${name}\n\n${readFileSync(join(from, name, "LICENSE"), "utf8").trim()}\n`)
    .join("\n---\n\n");
}

function weigh(file, when = "") {
  const weight = compressed(file);
  console.log(`${when}${relative(here, file)}: ${statSync(file).size} bytes, ${weight} compressed`);
  return weight;
}

await build({ ...common, ...packaged, outdir: dist });
let client = 0;
for (const file of await loadedWith(join(dist, "shoal-client.js"))) client += weigh(file);
console.log(`the client: ${client} compressed (at most ${LARGEST_CLIENT})`);
weigh(join(dist, "more_mechanisms.js"), "when a survey needs it: ");
for (const [name, entry] of Object.entries(pages)) {
  const out = join(assets, `${name}.js`);
  await build({ ...common, entryPoints: [entry], outfile: out, format: "iife" });
  weigh(out);
}
await build({ ...common, ...calculator, outfile: join(site, "calculator.js") });
weigh(join(site, "calculator.js"));
for (const folder of [dist, assets]) writeFileSync(join(folder, "third-party.txt"), notices());
if (!process.argv.includes("--no-types")) declare();
if (client > LARGEST_CLIENT) {
  console.error("the client is too heavy");
  process.exitCode = 1;
}

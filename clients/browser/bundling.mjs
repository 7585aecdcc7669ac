// How everything is bundled: the package, the scripts of the pages, and what the tests look into.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

// @hpke/core and @hpke/common say in their package.json that their modules do nothing when loaded; the
// file lies a folder above the one that bundlers look at, so it is said here. And they have a stand-in
// for the global object, which every browser has, and class fields, public and private, in a long-winded
// form.
const FIELD =
  /Object\.defineProperty\(this, ("\w+"), \{\s*enumerable: true,\s*configurable: true,\s*writable: true,\s*value: ([^]*?)\s*\}\);/g;
const PRIVATE_GET = /__classPrivateFieldGet\(this, (\w+), "f"\)/g;
const PRIVATE_SET = /__classPrivateFieldSet\(this, (\w+), (.*), "f"\)/g;
const trimmed = {
  name: "trimmed",
  setup({ onLoad, onResolve, resolve }) {
    onResolve({ filter: /./ }, async ({ path, pluginData, ...asked }) => {
      if (pluginData === trimmed || path === "crypto") return undefined;
      const found = await resolve(path, { ...asked, pluginData: trimmed });
      return /[\\/]@hpke[\\/]/.test(found.path) ? { ...found, sideEffects: false } : found;
    });
    onLoad({ filter: /[\\/]@hpke[\\/].*_dnt\.shims\.js$/ }, () => ({
      contents: "export const dntGlobalThis = globalThis;",
    }));
    onLoad({ filter: /[\\/]@hpke[\\/].*\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8")
        .replace(FIELD, "this[$1] = $2;")
        .replace(PRIVATE_GET, "$1.get(this)")
        .replace(PRIVATE_SET, "$1.set(this, $2)"),
    }));
  },
};

export const common = {
  bundle: true,
  minify: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  absWorkingDir: dirname(fileURLToPath(import.meta.url)),
  plugins: [trimmed],
};

/** The package: the client, and the mechanisms that it loads when a survey needs one. Each file has
 *  all that it uses, so that the client is one file; pages have everything in one script instead. */
export const packaged = {
  entryPoints: { "shoal-client": "src/index.ts", more_mechanisms: "src/more_mechanisms.ts" },
  external: ["./more_mechanisms.js"],
  format: "esm",
};

/** The calculator of the site: a function that knows its own source, of which it makes its worker. A page that
 *  is a file may load no other script there. */
export const calculator = {
  entryPoints: ["src/calculator/calculator.ts"],
  format: "iife",
  banner: { js: "(function calculator(){const calculatorSource=()=>`(${calculator})()`;" },
  footer: { js: "})();" },
};

export const LARGEST_CLIENT = 17_100; // bytes, compressed

export const compressed = (file) => gzipSync(readFileSync(file), { level: 9 }).length;

/** A built file, and all that is loaded with it: what it imports, but not what it may import later. */
export async function loadedWith(file, found = new Set()) {
  if (found.has(file)) return found;
  found.add(file);
  const imported = [];
  const listing = {
    name: "listing",
    setup: ({ onResolve }) =>
      onResolve({ filter: /./ }, ({ path, kind }) => {
        if (kind === "entry-point") return undefined;
        if (kind !== "dynamic-import") imported.push(path);
        return { path, external: true };
      }),
  };
  await build({ entryPoints: [file], bundle: true, write: false, format: "esm", plugins: [listing] });
  for (const path of imported) await loadedWith(join(dirname(file), path), found);
  return found;
}

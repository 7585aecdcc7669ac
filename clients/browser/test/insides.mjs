// How everything that the sources export is bundled, by module, for tests that look inside.

import { common } from "../bundling.mjs";

const MODULES = ["bound", "bytes", "canonical", "composition", "exchange", "hosts", "invitation", "keys", "mechanisms", "older", "policy", "random", "sealing", "store", "survey", "client", "errors"];

export const everything = {
  ...common,
  minify: false,
  stdin: {
    contents: MODULES.map((name) => `export * as ${name} from "./src/${name}.js";`).join("\n"),
    resolveDir: common.absWorkingDir,
  },
};

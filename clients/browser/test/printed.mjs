// Prints the insides as a script that a browser runs: `inside` has them.

import { build } from "esbuild";
import { everything } from "./insides.mjs";

const { outputFiles } = await build({ ...everything, write: false, format: "iife", globalName: "inside" });
process.stdout.write(outputFiles[0].text);

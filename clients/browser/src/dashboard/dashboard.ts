// What the dashboard's pages cannot do by themselves. Without this script they show the same.

import { folded } from "./folding.js";
import { filled } from "./login.js";
import { followed } from "./refreshing.js";
import { sortable } from "./sorting.js";
import { zoomable } from "./zoom.js";

function prepare(part: ParentNode): void {
  folded(part);
  for (const table of part.querySelectorAll<HTMLTableElement>("table[data-sortable]")) {
    sortable(table);
  }
  for (const figure of part.querySelectorAll<HTMLElement>("figure.shares")) zoomable(figure);
}

const main = document.querySelector("main");
if (main !== null) followed(main, prepare);
const field = document.querySelector<HTMLInputElement>("#token");
if (field !== null) filled(field);

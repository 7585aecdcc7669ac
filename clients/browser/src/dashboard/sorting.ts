// Tables that are sorted by the column whose heading is pressed.

const NUMBER = /[−-]?[\d,]*\.?\d+(?:e-?\d+)?/;

export function sortable(table: HTMLTableElement): void {
  for (const head of table.querySelectorAll<HTMLTableCellElement>("thead th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => sort(table, head));
  }
}

function sort(table: HTMLTableElement, head: HTMLTableCellElement): void {
  const body = table.tBodies[0];
  if (body === undefined) return;
  const column = head.cellIndex;
  const numbers = head.classList.contains("n");
  // Numbers are looked at from the largest on, words from the first.
  const before = head.getAttribute("aria-sort");
  const first = numbers ? "descending" : "ascending";
  const second = numbers ? "ascending" : "descending";
  const direction = before === first ? second : first;
  for (const other of table.querySelectorAll("thead th")) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1;
  const rows = [...body.rows].map((row) => ({ row, text: row.cells[column]?.textContent ?? "" }));
  rows.sort((a, b) => {
    const order = numbers ? valued(a.text) - valued(b.text) : a.text.localeCompare(b.text);
    return sign * order;
  });
  body.append(...rows.map(({ row }) => row));
}

function valued(text: string): number {
  const found = NUMBER.exec(text);
  return found === null ? -Infinity : Number(found[0].replace("−", "-").replaceAll(",", ""));
}

/** Curves on logarithmic axes, and dots on one, as SVG. Colours are the style sheet's, by class. */

import { power } from "./text.js";

const NAMESPACE = "http://www.w3.org/2000/svg";

export interface Curve {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Chart {
  readonly x: readonly [number, number];
  readonly y: readonly [number, number];
  readonly xLabel: string;
  readonly yLabel: string;
  /** What is to be read without seeing it. */
  readonly description: string;
  readonly curves: readonly Curve[];
  readonly level: { readonly y: number; readonly label: string; readonly short: string };
  readonly mark?: readonly [x: number, y: number];
}

type Attributes = Readonly<Record<string, string | number>>;

function element(parent: Element | null, tag: string, attributes: Attributes, text = ""): SVGElement {
  const made = document.createElementNS(NAMESPACE, tag) as SVGElement;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(typeof value === "number" ? Number(value.toFixed(2)) : value));
  if (text) made.textContent = text;
  parent?.append(made);
  return made;
}

function picture(width: number, height: number, description: string): SVGElement {
  const svg = element(null, "svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", class: "calculator-svg" });
  svg.setAttribute("aria-label", description);
  return svg;
}

/** Powers of ten between two numbers, at most so many. */
function decades(least: number, most: number, fit: number): number[] {
  const [first, last] = [Math.ceil(Math.log10(least) - 1e-9), Math.floor(Math.log10(most) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first + 1) / fit));
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => first + i * step);
}

const scale = ([least, most]: readonly [number, number], from: number, to: number) => (value: number) =>
  from + ((Math.log(value) - Math.log(least)) / (Math.log(most) - Math.log(least))) * (to - from);

/** The chart, for a place so many pixels wide. */
export function drawn({ x, y, xLabel, yLabel, description, curves, level, mark }: Chart, width: number): SVGElement {
  const narrow = width < 480;
  const height = Math.round(narrow ? 300 : Math.min(400, width * 0.56));
  const [left, right, top, bottom] = [52, 14, 22, 44];
  const svg = picture(width, height, description);
  const xAt = scale(x, left, width - right);
  const yAt = scale(y, height - bottom, top);
  for (const exponent of decades(...x, narrow ? 5 : 9)) {
    const at = xAt(10 ** exponent);
    element(svg, "line", { class: "grid", x1: at, x2: at, y1: top, y2: height - bottom });
    element(svg, "text", { class: "tick", x: at, y: height - bottom + 16, "text-anchor": "middle" }, power(exponent));
  }
  for (const exponent of decades(...y, 7)) {
    const at = yAt(10 ** exponent);
    element(svg, "line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at });
    element(svg, "text", { class: "tick", x: left - 6, y: at + 4, "text-anchor": "end" }, power(exponent));
  }
  element(svg, "rect", { class: "frame", x: left, y: top, width: width - left - right, height: height - top - bottom });
  element(svg, "text", { class: "label", x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, xLabel);
  element(svg, "text", { class: "label", x: 4, y: 13 }, yLabel);
  const base = yAt(level.y);
  element(svg, "line", { class: "level", x1: left, x2: width - right, y1: base, y2: base });
  element(svg, "text", { class: "level-label", x: width - right - 5, y: base + 15, "text-anchor": "end" }, narrow ? level.short : level.label);
  const clip = element(element(svg, "clipPath", { id: "calculator-plot" }), "rect", {
    x: left, y: top, width: width - left - right, height: height - top - bottom,
  });
  svg.prepend(clip.parentElement!);
  const plot = element(svg, "g", { "clip-path": "url(#calculator-plot)" });
  for (const { name, points } of curves) {
    const path = points.map(([px, py], i) => `${i ? "L" : "M"}${xAt(px).toFixed(1)} ${yAt(py).toFixed(1)}`).join("");
    if (path) element(plot, "path", { class: `curve ${name}`, d: path });
  }
  if (mark) {
    const [mx, my] = [xAt(mark[0]), yAt(mark[1])];
    element(plot, "line", { class: "mark-line", x1: mx, x2: mx, y1: my, y2: height - bottom });
    element(svg, "circle", { class: "mark", cx: mx, cy: my, r: 5 });
  }
  return svg;
}

/** A short piece of a curve, for a legend. */
export function swatch(name: string): SVGElement {
  const svg = element(null, "svg", { viewBox: "0 0 28 10", width: 28, height: 10, "aria-hidden": "true", class: "calculator-svg" });
  element(svg, "path", { class: `curve ${name}`, d: "M1 5H27" });
  return svg;
}

export interface Dot {
  readonly label: string;
  readonly value: number;
  readonly shown: string;
  readonly kind: "best" | "other" | "reference";
}

/** A row for each value, on one logarithmic axis. */
export function dots(rows: readonly Dot[], xLabel: string, description: string, width: number): SVGElement {
  const [left, right, top, row, bottom] = [Math.min(150, width * 0.36), 64, 6, 26, 44];
  const height = top + rows.length * row + bottom;
  const svg = picture(width, height, description);
  const values = rows.map(({ value }) => value);
  const x = [10 ** Math.floor(Math.log10(Math.min(...values)) - 1e-9), 10 ** Math.ceil(Math.log10(Math.max(...values)) + 1e-9)] as const;
  const xAt = scale(x, left, width - right);
  for (const exponent of decades(...x, 7)) {
    const at = xAt(10 ** exponent);
    element(svg, "line", { class: "grid", x1: at, x2: at, y1: top, y2: height - bottom });
    element(svg, "text", { class: "tick", x: at, y: height - bottom + 16, "text-anchor": "middle" }, power(exponent));
  }
  rows.forEach(({ label, value, shown, kind }, i) => {
    const y = top + (i + 0.5) * row;
    element(svg, "text", { class: `row-label ${kind}`, x: left - 10, y: y + 4, "text-anchor": "end" }, label);
    element(svg, "line", { class: "stem", x1: left, x2: xAt(value), y1: y, y2: y });
    element(svg, "circle", { class: `dot ${kind}`, cx: xAt(value), cy: y, r: 5 });
    element(svg, "text", { class: "value", x: xAt(value) + 10, y: y + 4 }, shown);
  });
  element(svg, "text", { class: "label", x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, xLabel);
  return svg;
}

// A closer look at the chart: bars carry their numbers, and are drawn anew on another axis.

const SMALLEST = 1 / 64; // of the whole axis
const STEPS = [1, 2, 2.5, 5, 10];
const SVG = "http://www.w3.org/2000/svg";

interface Axis {
  low: number;
  high: number;
}

export function zoomable(figure: HTMLElement): void {
  const controls = figure.querySelector<HTMLElement>(".zoom");
  const whole = { low: Number(figure.dataset["low"]), high: Number(figure.dataset["high"]) };
  if (controls === null || !(whole.high > whole.low)) return;
  let axis = whole;
  const show = (next: Axis): void => {
    axis = kept(next, whole);
    drawn(figure, axis);
    for (const button of controls.querySelectorAll("button")) {
      button.disabled = !possible(button.dataset["zoom"] ?? "", axis, whole);
    }
  };
  controls.addEventListener("click", (event) => {
    const asked = (event.target as HTMLElement).dataset["zoom"];
    if (asked !== undefined) show(moved(asked, axis, whole));
  });
  figure.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      show(moved(event.deltaY < 0 ? "in" : "out", axis, whole));
    },
    { passive: false },
  );
  controls.hidden = false;
  show(whole);
}

function moved(asked: string, axis: Axis, whole: Axis): Axis {
  const length = axis.high - axis.low;
  switch (asked) {
    case "in": // what is near zero, or the left end, stays where it is
      return { low: axis.low, high: axis.low + length / 2 };
    case "out":
      return { low: axis.low - length / 2, high: axis.high + length / 2 };
    case "left":
      return { low: axis.low - length / 4, high: axis.high - length / 4 };
    case "right":
      return { low: axis.low + length / 4, high: axis.high + length / 4 };
    default:
      return whole;
  }
}

function kept(axis: Axis, whole: Axis): Axis {
  const all = whole.high - whole.low;
  const length = Math.min(all, Math.max(axis.high - axis.low, all * SMALLEST));
  const low = Math.min(Math.max(axis.low, whole.low), whole.high - length);
  return { low, high: low + length };
}

function possible(asked: string, axis: Axis, whole: Axis): boolean {
  const next = kept(moved(asked, axis, whole), whole);
  const slack = 1e-9 * (whole.high - whole.low);
  return Math.abs(next.low - axis.low) > slack || Math.abs(next.high - axis.high) > slack;
}

function drawn(figure: HTMLElement, axis: Axis): void {
  const ticks = ticked(axis);
  for (const bar of figure.querySelectorAll<HTMLElement>(".bar[data-value]")) {
    const number = (name: string): number => Number(bar.dataset[name]);
    const svg = bar.querySelector("svg");
    if (svg !== null) redrawn(svg, axis, ticks, number("value"), number("low"), number("high"));
  }
  const scale = figure.querySelector("svg.scale");
  if (scale !== null) scaled(scale, axis, ticks, figure.dataset["unit"] ?? "");
}

function redrawn(
  svg: SVGElement,
  axis: Axis,
  ticks: number[],
  value: number,
  low: number,
  high: number,
): void {
  const height = Number(svg.getAttribute("height"));
  for (const line of svg.querySelectorAll(".grid")) line.remove();
  for (const tick of ticks) {
    if (tick !== 0) svg.prepend(upright(place(tick, axis), height));
  }
  const zero = place(0, axis);
  const end = place(value, axis);
  set(svg.querySelector("rect"), {
    x: percent(Math.min(zero, end)),
    width: percent(Math.abs(end - zero)),
  });
  set(svg.querySelector(".zero"), { x1: percent(zero), x2: percent(zero) });
  const from = percent(place(low, axis));
  const to = percent(place(high, axis));
  const [line, first, last] = svg.querySelectorAll(".reach");
  set(line, { x1: from, x2: to });
  set(first, { x1: from, x2: from });
  set(last, { x1: to, x2: to });
}

function scaled(svg: Element, axis: Axis, ticks: number[], unit: string): void {
  const decimals = Math.max(0, -Math.floor(Math.log10(stepOf(axis)) + 1e-9) + (odd(axis) ? 1 : 0));
  svg.replaceChildren(
    ...ticks.map((tick) => {
      const at = place(tick, axis);
      const text = document.createElementNS(SVG, "text");
      set(text, {
        x: percent(at),
        y: "15",
        "text-anchor": at < 2 ? "start" : at > 98 ? "end" : "middle",
      });
      text.textContent = tick.toFixed(decimals).replace("-", "−") + unit;
      return text;
    }),
  );
}

// 25 has no more digits than 20, but 2.5 has.
function odd(axis: Axis): boolean {
  const step = stepOf(axis);
  const scale = 10 ** Math.floor(Math.log10(step) + 1e-9);
  return Math.abs(step / scale - 2.5) < 1e-6;
}

function stepOf(axis: Axis): number {
  const rough = (axis.high - axis.low) / 5;
  const scale = 10 ** Math.floor(Math.log10(rough));
  return scale * (STEPS.find((step) => step * scale >= rough * (1 - 1e-9)) ?? 10);
}

function ticked(axis: Axis): number[] {
  const step = stepOf(axis);
  const first = Math.ceil(axis.low / step - 1e-9);
  const last = Math.floor(axis.high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, place) => step * (first + place));
}

function place(value: number, axis: Axis): number {
  const share = (100 * (value - axis.low)) / (axis.high - axis.low);
  return Math.min(10_000, Math.max(-10_000, share)); // what is outside is cut off by the drawing
}

function percent(share: number): string {
  return `${share.toFixed(3)}%`;
}

function upright(at: number, height: number): SVGElement {
  const line = document.createElementNS(SVG, "line");
  set(line, { x1: percent(at), x2: percent(at), y1: "0", y2: String(height), class: "grid" });
  return line;
}

function set(element: Element | null | undefined, attributes: Record<string, string>): void {
  for (const [name, value] of Object.entries(attributes)) element?.setAttribute(name, value);
}

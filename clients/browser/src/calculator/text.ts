/** Numbers as they are shown: an upper bound is rounded up, a lower bound down. */

const DIGITS = 4;

/** To so many digits, never below the value. */
export const up = (value: number, digits = DIGITS): string => rounded(value, digits, 1);
/** The same, but the limit itself where rounding would pass it. */
export const upTo = (value: number, limit: number): string => (Number(up(value)) > limit ? String(limit) : up(value));
/** To so many digits, never above the value. */
export const down = (value: number, digits = DIGITS): string => rounded(value, digits, -1);

function rounded(value: number, digits: number, side: 1 | -1): string {
  const nearest = Number(value.toPrecision(digits));
  if ((nearest - value) * side >= 0) return plain(nearest);
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - digits + 1);
  return plain(Number((nearest + side * unit).toPrecision(digits)));
}

/** A parameter, as short as it can be written. */
export function plain(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e15) return String(Number(value.toPrecision(12)));
  return Number(value.toPrecision(12)).toExponential().replace("e+", "e");
}

/** A whole number, in groups of three digits. */
export const counted = (value: number): string => value.toLocaleString("en-US");

/** A number of people: whole where it is large. */
export const amount = (value: number): string =>
  value >= 100 ? counted(Math.round(value)) : plain(Number(value.toPrecision(3)));

/** 10 to a power, as an axis has it. */
export const power = (exponent: number): string =>
  exponent === 0 ? "1" : exponent === 1 ? "10" : `10${[...String(exponent)].map((each) => SUPERSCRIPTS[each] ?? "").join("")}`;

const SUPERSCRIPTS: Readonly<Record<string, string>> = {
  "-": "⁻", "0": "⁰", "1": "¹", "2": "²", "3": "³", "4": "⁴", "5": "⁵", "6": "⁶", "7": "⁷", "8": "⁸", "9": "⁹",
};

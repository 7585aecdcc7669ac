/** Whole numbers, exactly uniform, from the browser's cryptographic generator and nothing else. */

/** Uniform on 0, …, bound − 1, for bounds up to 2⁶⁴. */
export type Below = (bound: bigint) => bigint;

/** Words at or above the largest multiple of the bound are drawn again: no number is likelier. */
export const below: Below = (bound) => {
  const most = (1n << 64n) - ((1n << 64n) % bound);
  for (;;) {
    const drawn = crypto.getRandomValues(new BigUint64Array(1))[0]!;
    if (drawn < most) return drawn % bound;
  }
};

/** True with a chance of exactly `share` of 2^bits. */
export const coin = (draw: Below, share: number | bigint, bits: number): boolean =>
  draw(1n << BigInt(bits)) < BigInt(share);

/** The same as `below` for numbers up to 2⁵³. */
export const pick = (draw: Below, bound: number): number => Number(draw(BigInt(bound)));

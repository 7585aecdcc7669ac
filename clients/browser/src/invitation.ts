/**
 * Invitations: what one invited person has, and the code that stands beside each of their reports.
 *
 *     invitation  28 characters of Crockford's base 32: secret[16], and 12 bits that tell a mistyped one
 *     code        SHA-256("shoal/1 admission" survey[32] secret[16] number[2])[:16], number from 0 on
 */

import { joined, sha256, unhex, utf8, type Bytes } from "./bytes.js";
import { ShoalError } from "./errors.js";

const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH = 28;

/** The secret of an invitation, in whatever case and groups, or of a link that ends with one. */
export async function secretOf(invitation: string): Promise<Bytes> {
  const letters = invitation.replace(/^.*#|[\s-]/gs, "").toUpperCase().replace(/[IL]/g, "1").replace(/O/g, "0");
  const bits = [...letters].map((letter) => LETTERS.indexOf(letter).toString(2).padStart(5, "0"));
  const digits = bits.join("").replace(/.{4}/g, (four) => parseInt(four, 2).toString(16));
  const secret = unhex(digits.slice(0, 32));
  const sound = letters.length === LENGTH && secret;
  if (sound && (await sha256(joined(utf8("shoal/1 invitation"), secret))).startsWith(digits.slice(32))) return secret;
  throw new ShoalError("invitation", `This is not an invitation: it has ${LENGTH} letters and digits. Check for a typo.`);
}

/** What stands beside the person's report of this occasion, from 1 on. */
export async function codeOf(invitation: string, survey: string, occasion: number): Promise<Bytes> {
  const number = [(occasion - 1) >> 8, (occasion - 1) & 255];
  const digest = await sha256(joined(utf8("shoal/1 admission"), unhex(survey)!, await secretOf(invitation), number));
  return unhex(digest.slice(0, 32))!;
}

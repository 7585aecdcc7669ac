/** Question A: ε of n shuffled reports, beside the published bounds, and its curve over n. */

import { crowdEpsilon, type Law } from "../bound.js";
import { fineOthers } from "./others.js";
import { PUBLISHED, publishedEpsilon, type Query } from "./published.js";
import { anyRandomizer, FAMILIES } from "./randomizers.js";

export interface AmplifyQuestion {
  readonly ask: "amplify";
  readonly localEpsilon: number;
  readonly n: number;
  readonly delta: number;
  /** "any", or the name of a randomizer of one of k answers. */
  readonly randomizer: string;
  readonly k: number;
}

/** ε, or null where a bound does not apply, by name. */
export type Bounds = Readonly<Record<string, number | null>>;

export type AmplifyStep =
  | { readonly step: "answer"; readonly epsilon: number; readonly theorem: string; readonly bounds: Bounds }
  | { readonly step: "point"; readonly n: number; readonly epsilon: number; readonly bounds: Bounds };

const NEAR_ZERO = 0.1; // of the deviation of the loss: there δ hardly depends on ε, and is counted more finely
const FINER = 16;
// The library encloses δ(ε) and answers with the upper end, up to 3·10⁻⁵ of ε above what is computed here.
// This much is added, so that nobody reads a smaller ε on the page than the library would give them.
const ALLOWANCE = 1e-4;
const [FEWEST, MOST] = [1, 9]; // decades of people that the curve goes over
const PER_DECADE = 4;
/** The bounds that are drawn; the others would lie upon them. */
export const DRAWN: readonly string[] = ["clones", "fmt22-closed", "fmt21-closed", "bbgn19-bennett", "efmrtt19"];

export const lawsOf = ({ randomizer, localEpsilon, k }: AmplifyQuestion): readonly Law[] =>
  (FAMILIES.get(randomizer) ?? anyRandomizer)(localEpsilon, k).laws;

/** The deviation of what n reports lose, to which ε is proportional among many. */
export const spreadOf = ({ a, q }: Law, n: number): number => (a - 1) * Math.sqrt((2 * q) / n);

/** ε that n people give each other at δ: an upper bound, whatever the pair of answers. */
export function amplified(laws: readonly Law[], n: number, delta: number): number {
  const each = laws.map((law) => {
    const epsilon = crowdEpsilon(law, n, delta, fineOthers());
    if (epsilon === 0 || epsilon > NEAR_ZERO * spreadOf(law, n)) return epsilon;
    return Math.min(epsilon, crowdEpsilon(law, n, delta, fineOthers(), FINER));
  });
  const local = Math.log(Math.max(...laws.map(({ a }) => a))) * (1 + 1e-9);
  return Math.min(Math.max(...each) * (1 + ALLOWANCE), local);
}

function boundsOf(query: Query, names?: readonly string[]): Bounds {
  const listed = PUBLISHED.filter(({ name }) => !names || names.includes(name));
  return Object.fromEntries(listed.map((bound) => [bound.name, publishedEpsilon(bound, query)]));
}

/** The answer, then the points of its curve. */
export function* amplify(question: AmplifyQuestion): Generator<AmplifyStep> {
  const { localEpsilon, n, delta, randomizer, k } = question;
  const laws = lawsOf(question);
  const query = { localEpsilon, delta, k: randomizer === "grr" ? k : undefined };
  const theorem = randomizer === "any" ? "optimal clones" : "privacy blanket";
  const at = (people: number) => Math.min(amplified(laws, people, delta), localEpsilon); // which holds without a crowd
  yield { step: "answer", epsilon: at(n), theorem, bounds: boundsOf({ ...query, n }) };
  for (let i = 0; i <= (MOST - FEWEST) * PER_DECADE; i++) {
    const people = Math.round(10 ** (FEWEST + i / PER_DECADE));
    const bounds = boundsOf({ ...query, n: people }, DRAWN);
    yield { step: "point", n: people, epsilon: at(people), bounds };
  }
}

/** What a person allows, whatever a survey says: checked before anything is drawn. */

import { ShoalError } from "./errors.js";
import { hostOf } from "./hosts.js";
import { crowdOf, deltaTakingPart, isBroken, isProved, provedEpsilon } from "./survey.js";
import type { Checked, Entry, Policy, Survey } from "./types.js";

export const DEFAULTS: Policy = {
  localEpsilon: 8,
  epsilon: 2,
  delta: 1e-5,
  minimum: 100,
  totalEpsilon: 10,
  totalDelta: 1e-4,
  totalLocalEpsilon: 40,
  hosts: null,
  requireAdmission: false,
};

function unless(allowed: unknown, why: string): void {
  if (!allowed) throw new ShoalError("policy", why);
}

const shown = (value: number): string => String(Number(value.toPrecision(7)));

const atMost = (what: string, asked: number, allowed: number): void =>
  unless(asked <= allowed, `This survey has ${what} ${shown(asked)}, and you allow at most ${shown(allowed)}.`);

export function checkHost(url: string, { hosts }: Policy): void {
  const host = hostOf(url);
  unless(host && (!hosts || hosts.includes(host)), `You do not allow surveys of ${host || url}.`);
}

/** Sums over all surveys, the new one included; those without a local epsilon have none to add. */
export function checkTotals(survey: string, cost: Checked, ledger: Entry[], policy: Policy): void {
  const all = [cost, ...ledger.filter((entry) => entry.survey !== survey)];
  for (const [name, total, allowed] of [
    ["epsilon", "epsilon", policy.totalEpsilon],
    ["delta", "delta", policy.totalDelta],
    ["localEpsilon", "local epsilon", policy.totalLocalEpsilon],
  ] as const) {
    if (cost[name] === Infinity) continue;
    const sum = all.reduce((before, { [name]: more }) => before + (more < Infinity ? more : 0), 0);
    atMost(`with your other surveys a total ${total} of`, sum, allowed);
  }
}

/** What answering costs at most, if the survey keeps within the limits. */
export function costOf(survey: Survey, policy: Policy): Checked {
  const { epsilon, delta, minimum } = survey;
  const localEpsilon = survey.localEpsilon * survey.reportsPerPerson;
  checkHost(survey.shuffler.url, policy);
  checkHost(survey.analyzer.url, policy);
  unless(
    !policy.requireAdmission || survey.admission.kind !== "open",
    "The crowd of this survey is assumed, not checked, and you allow only surveys for people invited.",
  );
  unless(
    minimum >= policy.minimum,
    `This survey may open batches of ${minimum} reports, and you allow no fewer than ${policy.minimum}.`,
  );
  atMost("a delta, for people who take part, of", deltaTakingPart(survey), policy.delta);
  unless(
    localEpsilon < Infinity || policy.localEpsilon === Infinity,
    "Only the crowd hides an answer to this survey, and you have not allowed that.",
  );
  atMost("a local epsilon, whoever colludes, of", localEpsilon, policy.localEpsilon);
  atMost("a promised epsilon of", epsilon, policy.epsilon);
  const verifiedEpsilon = provedEpsilon(survey);
  const verified = isProved(survey);
  if (isBroken(survey)) throw new ShoalError("tampered", "This survey promises more than it can keep.");
  // What was proved here is what it costs, whatever is promised. A verified promise is within the limit already.
  const cost = verifiedEpsilon < Infinity ? verifiedEpsilon : epsilon;
  if (!verified) atMost("an epsilon, as far as this device can prove, of", cost, policy.epsilon);
  return {
    epsilon: cost,
    delta,
    localEpsilon,
    minimum,
    crowd: crowdOf(survey),
    verified,
    verifiedEpsilon,
    reason: verified ? "" : "This device could not work out the promise by itself.",
  };
}

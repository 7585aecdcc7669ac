// What the tests in Python ask of the client: a list of jobs on standard input, what came of each on
// standard output.

import { inside, ShoalClient, unhex, utf8, hex } from "./kit.mjs";

const { random, sealing, survey: surveys } = inside;

const jobs = {
  /** Messages of so many people with one value, one after the other. */
  async draw({ survey, value, people }) {
    const device = surveys.devicesFor(await surveys.readSurvey(utf8(survey)))[0];
    const found = [];
    for (let i = 0; i < people; i++) found.push(hex(device.draw(value, random.below)));
    return found.join("");
  },
  /** A report with these messages, of which there are so many for each question. */
  async seal({ id, messages, shuffler, analyzer, absent, slots = [messages.length] }) {
    const key = ({ public: raw, number }) => ({ raw: unhex(raw), number });
    const keys = { shuffler: key(shuffler), analyzer: key(analyzer) };
    return hex(await sealing.seal(unhex(id), unhex(messages.join("")), slots.map((count) => [count, messages[0].length / 2]), keys, absent));
  },
  /** ε that the client proves for a survey. */
  async prove({ survey }) {
    return surveys.provedEpsilon(await surveys.readSurvey(utf8(survey)));
  },
  /** The name of a survey, or why it is none. */
  async read({ survey }) {
    try {
      return (await surveys.readSurvey(utf8(survey))).id;
    } catch (error) {
      if (!(error instanceof inside.errors.ShoalError)) throw error;
      return error.kind;
    }
  },
  /** Answers as the mechanisms take them; why, where one is refused. */
  async values({ survey, answers }) {
    const asked = await surveys.readSurvey(utf8(survey));
    return answers.map((answer) => {
      try {
        return surveys.valuesOf(asked, answer);
      } catch (error) {
        return error.kind;
      }
    });
  },
  /** So many people, each with a device of their own, answer a survey over the network. */
  async people({ url, id, answers, now, invitations = [] }) {
    const states = [];
    for (const [person, answer] of answers.entries()) {
      const client = await ShoalClient.open({
        name: `person ${person}`,
        now: () => now,
        policy: { minimum: 2, epsilon: 9, totalEpsilon: 9, localEpsilon: Infinity },
      });
      const survey = await client.load(url, id);
      client.check(survey);
      const shown = invitations.length ? { invitation: invitations[person] } : {};
      states.push((await client.report(survey, answer, shown)).state);
      client.close();
    }
    return states;
  },
};

let input = "";
for await (const part of process.stdin) input += part;
const found = [];
for (const { job, ...asked } of JSON.parse(input)) found.push(await jobs[job](asked));
process.stdout.write(JSON.stringify(found));

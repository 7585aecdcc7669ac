// People invited: a code beside the report, kept until it has arrived, and refused in words.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hex, inside, NOW, Services, ShoalError, vectors } from "./kit.mjs";

const [one, other] = vectors("admission").invitations.map(({ spellings }) => spellings[0]);
const INVITED = { admission: { kind: "invited", dishonest: 0, entitled: 2000 } };
const SPENT = { type: "urn:shoal:problem:code_spent", title: "no", detail: "another report came with it" };
const refusing = (problem, status = 403) => () => new Response(JSON.stringify(problem), { status });
const thrown = (words) => (error) => error instanceof ShoalError && error.kind === "invitation" && words.test(error.message) && !error.sent;

async function rowOf(name) {
  const store = await inside.store.Store.open(name);
  try {
    return (await store.all("report "))[0];
  } finally {
    store.close();
  }
}

async function opened(name, change = {}) {
  const services = await Services.open({ ...INVITED, ...change });
  const client = await services.open({ name });
  return { services, client, survey: await services.survey(client) };
}

test("the code is beside the report, and nothing of the invitation is left", async () => {
  const { services, client, survey } = await opened("invited");
  const outcome = await client.report(survey, "answer 7", { invitation: one.toLowerCase() });
  assert.deepEqual([outcome.state, outcome.refusal, outcome.bytes], ["sent", "", survey.reportBytes + 16]);
  const code = hex(await inside.invitation.codeOf(one, survey.id, 1));
  assert.equal(services.posts[0].slice(-32), code);
  assert.equal(services.seen.size, 1);
  const row = await rowOf("invited");
  assert.equal(row.code.length, 0);
  assert.ok(!JSON.stringify(row).includes(one));
  const again = await client.report(survey, "answer 8"); // what was made needs no invitation
  assert.deepEqual([again.state, again.again], ["sent", true]);
});

test("each occasion has a code of its own, and a number alone is the occasion", async () => {
  const { services, client, survey } = await opened("occasions", { reports_per_person: 2, epsilon: 1 });
  await client.report(survey, "answer 7", { invitation: one });
  await client.report(survey, "answer 7", { invitation: one, occasion: 2 });
  const codes = services.posts.map((post) => post.slice(-32));
  for (const [i, code] of codes.entries()) assert.equal(code, hex(await inside.invitation.codeOf(one, survey.id, i + 1)));
  assert.equal((await client.report(survey, "answer 7", 2)).occasion, 2);
});

test("without an invitation, or with a mistyped one, nothing is drawn", async () => {
  const { services, client, survey } = await opened("missing");
  await assert.rejects(client.report(survey, "answer 7"), thrown(/for people who were invited/));
  await assert.rejects(client.report(survey, "answer 7", { invitation: `${one.slice(0, -1)}X` }), thrown(/Check for a typo/));
  assert.deepEqual([await client.pending(), services.posts.length, (await client.ledger()).length], [0, 0, 0]);
  const open = await Services.open();
  const another = await open.open();
  await assert.rejects(another.report(await open.survey(another), "answer 7", { invitation: one }), thrown(/takes no invitation/));
});

for (const [problem, answer] of [
  ["code_spent", refusing(SPENT)],
  ["code_revoked", refusing({ type: "urn:shoal:problem:code_revoked", title: "revoked" })],
  ["code_unknown", refusing({ reports: 1, refused: [{ index: 0, reason: "code_unknown" }] }, 202)],
]) {
  test(`${problem}: the report is kept, and goes on with another invitation`, async () => {
    const { services, client, survey } = await opened(problem);
    services.onReports(answer);
    const first = await client.report(survey, "answer 7", { invitation: one });
    assert.deepEqual([first.state, first.refusal], ["waiting", problem]);
    assert.equal(first.due, NOW + 3600);
    assert.equal((await client.ledger())[0].refusal, problem);
    const kept = await rowOf(problem);
    assert.deepEqual([kept.doubt, kept.refusal], [0, problem]);
    await assert.rejects(client.admit(survey, "no invitation"), thrown(/Check for a typo/));
    services.onReports();
    const sent = await client.admit(survey, other);
    assert.deepEqual([sent.state, sent.refusal, sent.digest], ["sent", "", first.digest]);
    assert.equal(services.posts[0].slice(-32), hex(await inside.invitation.codeOf(other, survey.id, 1)));
    assert.deepEqual([(await rowOf(problem)).refusal, (await client.ledger())[0].refusal], ["", ""]);
  });
}

test("answering again with another invitation sends what was drawn", async () => {
  const { services, client, survey } = await opened("answered again");
  services.onReports(refusing(SPENT));
  const { digest } = await client.report(survey, "answer 7", { invitation: one });
  services.onReports();
  const outcome = await client.report(survey, "answer 8", { invitation: other });
  assert.deepEqual([outcome.state, outcome.again, outcome.digest], ["sent", true, digest]);
});

test("other refusals are no matter of invitations, and retries send the same bytes and code", async () => {
  const { services, client, survey } = await opened("later");
  const bodies = [];
  services.onReports(({ body }) => (bodies.push(hex(new Uint8Array(body))), new Response("{}", { status: 403 })));
  assert.equal((await client.report(survey, "answer 7", { invitation: one })).refusal, "");
  services.onReports();
  await client.flush(true);
  assert.equal(new Set([...bodies, ...services.posts]).size, 1);
});

test("a policy may require that people are invited", async () => {
  const policy = { requireAdmission: true };
  const open = await Services.open();
  const strict = await open.open({ policy });
  const survey = await open.survey(strict);
  assert.throws(() => strict.check(survey), /assumed, not checked, and you allow only surveys for people invited/);
  const services = await Services.open(INVITED);
  const client = await services.open({ policy });
  assert.ok(client.check(await services.survey(client)).crowd > 0);
});

test("people who are assumed dishonest are no crowd in what the device proves", async () => {
  const checked = async (dishonest) => {
    const services = await Services.open({ admission: { kind: "open", dishonest } });
    const client = await services.open();
    return client.check(await services.survey(client));
  };
  const [none, half] = [await checked(0), await checked(500)];
  assert.deepEqual([none.crowd, half.crowd], [1000, 500]);
  assert.ok(half.verifiedEpsilon > none.verifiedEpsilon);
});

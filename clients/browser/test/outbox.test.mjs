// One report of one person: drawn once, kept, and the same bytes until it has arrived.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hex, inside, NOW, Owner, Services, ShoalClient, ShoalError, utf8, vectors } from "./kit.mjs";

const refused = (kind, words = /./) => (error) => {
  assert.ok(error instanceof ShoalError, String(error));
  assert.equal(error.kind, kind, error.message);
  assert.match(error.message, words);
  assert.equal(error.message.endsWith("Nothing was sent."), !error.sent);
  return true;
};
const DAY = 86_400;
const lost = () => {
  throw new TypeError("no network");
};
const rows = async (name) => {
  const store = await inside.store.Store.open(name);
  try {
    return await store.all("report ");
  } finally {
    store.close();
  }
};

test("an answer is sent, opens to one message, and leaves nothing behind", async () => {
  const services = await Services.open();
  const client = await services.open({ name: "sent" });
  const survey = await services.survey(client);
  let changes = 0;
  const end = client.on("change", () => changes++);
  const outcome = await client.report(survey, "answer 7");
  assert.equal(outcome.state, "sent");
  assert.equal(outcome.bytes, survey.reportBytes);
  assert.equal(outcome.digest, await inside.bytes.sha256(Buffer.from(services.posts[0], "hex")));
  assert.equal([...services.seen.values()][0].length, 4);
  assert.ok(changes > 0);
  end();
  const [row] = await rows("sent");
  assert.deepEqual([row.ending, row.messages.length, row.sealed.length], ["delivered", 0, 0]);
  assert.ok(!JSON.stringify(row).includes("answer"));
  const again = await client.report(survey, "answer 8");
  assert.deepEqual([again.state, again.again, again.digest], ["sent", true, ""]);
  assert.equal(services.posts.length, 1);
  assert.deepEqual(new Set(services.asked.map((asked) => asked.split(" ")[1].split("/")[0])), new Set(["shuffler.example"]));
});

test("every retry sends the same bytes, and nothing is drawn again", async () => {
  const services = await Services.open();
  const client = await services.open();
  const survey = await services.survey(client);
  const posts = [];
  services.onReports(({ body }) => (posts.push(hex(new Uint8Array(body))), lost()));
  const first = await client.report(survey, "answer 7");
  assert.equal(first.state, "waiting");
  assert.match(first.reason, /no connection/);
  assert.ok(first.due > NOW && first.due <= NOW + 1);
  assert.equal(await client.pending(), 1);
  const waits = [];
  for (let i = 0; i < 14; i++) {
    const [{ due, digest }] = await client.flush(true);
    assert.equal(digest, first.digest);
    waits.push(due - services.now);
  }
  // Twice as long each time, by a half at least, an hour at most.
  waits.forEach((wait, i) => assert.ok(wait >= Math.min(3600, 2 ** (i + 1)) / 2 && wait <= Math.min(3600, 2 ** (i + 1)), `${waits}`));
  assert.deepEqual(await client.flush(), []); // not yet
  services.onReports();
  services.now += 3600;
  const [sent] = await client.flush();
  assert.deepEqual([sent.state, sent.digest], ["sent", first.digest]);
  assert.equal(new Set([...posts, ...services.posts]).size, 1);
  assert.equal(await client.pending(), 0);
});

test("two pages at once draw once, and send the same bytes", async () => {
  const services = await Services.open();
  const pages = await Promise.all([1, 2, 3, 4].map(() => services.open({ name: "pages" })));
  const found = await Promise.all(
    pages.map(async (client, i) => client.report(await services.survey(client), `answer ${i}`)),
  );
  assert.equal(found.filter(({ again }) => !again).length, 1);
  for (const client of pages) await client.flush(true);
  assert.equal(new Set(services.posts).size, 1);
  assert.equal(services.seen.size, 1);
  assert.equal((await rows("pages")).length, 1);
});

for (const fits of [0, 1]) {
  test(`a store that is full after ${fits} is told, nothing is sent and nothing is charged`, async () => {
    const services = await Services.open();
    const client = await services.open();
    const survey = await services.survey(client);
    services.asked.length = 0;
    const put = IDBObjectStore.prototype.put;
    let left = fits;
    IDBObjectStore.prototype.put = function (...given) {
      if (left-- > 0) return put.apply(this, given);
      throw new DOMException("full", "QuotaExceededError");
    };
    try {
      await assert.rejects(client.report(survey, "answer 7"), refused("storage", /no room left/));
    } finally {
      IDBObjectStore.prototype.put = put;
    }
    assert.deepEqual(services.asked, []);
    assert.equal(await client.pending(), 0);
    assert.deepEqual(await client.ledger(), []);
  });
}

test("a survey that lies about its promise gets no answer", async () => {
  const k2 = { mechanism: { name: "grr", k: 2, epsilon: 4 }, sampler: { high: 54, low: 1, total: 55 }, answers: ["no", "yes"], message_bytes: 1 };
  const { batches } = JSON.parse(vectors("reports").cases[0].survey);
  const open = (change) => Services.open({ ...k2, batches: { ...batches, minimum: 5000, target: 5000 }, epsilon: 0.001, ...change });
  const services = await open({});
  const client = await services.open();
  const survey = await services.survey(client);
  assert.throws(() => client.check(survey), refused("tampered", /more than it can keep/));
  await assert.rejects(client.report(survey, "yes"), refused("tampered", /more than it can keep/));
  assert.deepEqual([services.posts, await client.ledger()], [[], []]);
  // Where others might prove more, what was proved here is what is counted.
  const twice = await open({ reports_per_person: 2 });
  const other = await twice.open();
  twice.onReports(lost);
  await other.report(await twice.survey(other), "yes");
  const [{ epsilon }] = await other.ledger();
  assert.ok(epsilon > 1 && epsilon < 2, `${epsilon}`);
});

/** With a store that takes nothing any more once a report was posted; `reads`: nor gives anything. */
async function failingAfterPost(services, answer, reads, work) {
  const { put, get, getAll } = IDBObjectStore.prototype;
  const fail = () => {
    throw new DOMException("full", "QuotaExceededError");
  };
  services.onReports(async (options) => {
    const reply = await services.take(options);
    Object.assign(IDBObjectStore.prototype, { put: fail, ...(reads && { get: fail, getAll: fail }) });
    return answer(reply);
  });
  try {
    return await work();
  } finally {
    Object.assign(IDBObjectStore.prototype, { put, get, getAll });
    services.onReports();
  }
}

for (const reads of [false, true]) {
  test(`a store that fails after a report has arrived does not unsend it (${reads ? "nothing" : "all"} can be read)`, async () => {
    const services = await Services.open();
    const client = await services.open();
    const survey = await services.survey(client);
    const work = () => client.report(survey, "answer 7");
    const sent = await failingAfterPost(services, (reply) => reply, reads, work);
    assert.equal(sent.state, "sent");
    assert.equal(await client.pending(), 1); // in doubt, for all that the device knows
    const [again] = await client.flush(true);
    assert.deepEqual([again.state, again.digest], ["sent", sent.digest]);
    assert.equal(services.posts.length, 2);
    assert.equal(new Set(services.posts).size, 1);
  });

  test(`a store that fails after the answer was lost does not say that nothing was sent (${reads ? "nothing" : "all"} can be read)`, async () => {
    const services = await Services.open();
    const client = await services.open();
    const survey = await services.survey(client);
    const work = () => assert.rejects(client.report(survey, "answer 7"), (error) => refused("storage")(error) && error.sent);
    await failingAfterPost(services, lost, reads, work);
    if (!reads) {
      const flushed = await failingAfterPost(services, lost, reads, () => client.flush(true));
      assert.ok(!flushed[0].reason.includes("Nothing was sent"), flushed[0].reason);
    }
    assert.equal((await client.flush(true))[0].state, "sent");
    assert.equal(new Set(services.posts).size, 1);
  });
}

/** As somebody does who deletes what sites have stored, while the page is open. */
const emptied = async (name) => {
  const store = await inside.store.Store.open(name);
  await store.run(async (box) => {
    for (const { key } of await box.all("")) await box.remove(key);
  });
  store.close();
};

for (const [when, place] of [["before", "GET /v1/keys"], ["after", "POST"]]) {
  test(`a store that is emptied ${when} a report was sent is told in words`, async () => {
    const services = await Services.open();
    const name = `emptied ${when}`;
    const client = await services.open({ name });
    const survey = await services.survey(client);
    const empty = async () => {
      await emptied(name);
      return when === "before" ? new Response(await services.shuffler.document()) : lost();
    };
    if (place === "POST") services.onReports(empty);
    else services.answers[place] = empty;
    // Nobody knows any more whether it was sent, so it is not said that it was not.
    await assert.rejects(client.report(survey, "answer 7"), (error) => refused("storage", /was deleted/)(error) && error.sent);
    assert.equal(services.posts.length, 0);
    assert.equal(await client.pending(), 0);
  });
}

test("only what is wanted is tried", async () => {
  const services = await Services.open();
  const other = await Services.open({ name: "another" });
  const client = await services.open();
  services.answers["GET /v1/keys"] = lost;
  await client.report(await services.survey(client), "answer 7");
  await client.report(await client.survey(other.bytes), "answer 7");
  delete services.answers["GET /v1/keys"];
  const found = await client.flush(true, (survey) => survey === services.id);
  assert.deepEqual(found.map(({ survey, state }) => [survey, state]), [[services.id, "sent"]]);
  assert.deepEqual((await client.ledger()).map(({ survey, waiting }) => [survey, waiting]).sort(), [[services.id, 0], [other.id, 1]].sort());
});

test("a store that cannot be opened is told", async () => {
  const open = indexedDB.open;
  indexedDB.open = () => {
    throw new DOMException("private", "SecurityError");
  };
  try {
    await assert.rejects(ShoalClient.open(), refused("storage", /SecurityError/));
  } finally {
    indexedDB.open = open;
  }
});

test("a browser without the algorithms is told", async () => {
  const { subtle } = crypto;
  const generate = subtle.generateKey;
  subtle.generateKey = async () => {
    throw new DOMException("X25519", "NotSupportedError");
  };
  try {
    await assert.rejects(ShoalClient.open(), refused("unsupported", /X25519/));
  } finally {
    subtle.generateKey = generate;
  }
});

test("if the key was refused the same message is sealed with the new one", async () => {
  const services = await Services.open();
  const client = await services.open({ name: "rotated" });
  const survey = await services.survey(client);
  services.onReports(() => new Response("{}", { status: 429, headers: { "retry-after": "40" } }));
  const first = await client.report(survey, "answer 7");
  assert.ok(first.due === NOW + 40, "as long as the shuffler asks");
  const [before] = await rows("rotated");
  services.onReports();
  services.shuffler.rotate();
  const [sent] = await client.flush(true);
  assert.equal(sent.state, "sent");
  assert.notEqual(sent.digest, first.digest);
  assert.equal(services.posts.length, 2); // the old key first: its list was still good
  assert.deepEqual([...services.seen.values()], [hex(before.messages)]);
});

test("a report that may have arrived under the old key is given up", async () => {
  const services = await Services.open();
  const client = await services.open();
  const survey = await services.survey(client);
  services.onReports(lost);
  await client.report(survey, "answer 7");
  services.onReports();
  services.shuffler.rotate();
  const [found] = await client.flush(true);
  assert.equal(found.state, "given-up");
  assert.match(found.reason, /may have arrived/);
  assert.equal(services.posts.length, 1);
  await assert.rejects(client.report(survey, "answer 7"), (error) => refused("refused", /given up/)(error) && error.sent);
});

test("what may have arrived is sent as it is, whatever keys are shown since", async () => {
  const services = await Services.open();
  const client = await services.open();
  const survey = await services.survey(client);
  services.onReports(lost);
  const first = await client.report(survey, "answer 7");
  services.onReports();
  services.now += 4000; // the lists that were kept are too old
  services.answers["GET /v1/keys"] = () => new Response("no list of keys");
  const [sent] = await client.flush(true);
  assert.deepEqual([sent.state, sent.digest], ["sent", first.digest]);
});

test("a page whose bytes are no longer the report's sends nothing", async () => {
  const services = await Services.open();
  const [one, other] = await Promise.all([1, 2].map(() => services.open({ name: "overtaken" })));
  const survey = await services.survey(one);
  const posts = [];
  services.onReports(({ body }) => {
    posts.push(hex(new Uint8Array(body)));
    return new Response("{}", { status: 429 });
  });
  await one.report(survey, "answer 7");
  services.shuffler.rotate();
  services.now += 4000;
  services.answers["GET /v1/keys"] = async () => {
    delete services.answers["GET /v1/keys"];
    await other.flush(true); // seals it with the new key
    throw new TypeError("no network");
  };
  const [waiting] = await one.flush(true);
  assert.match(waiting.reason, /another page/);
  assert.equal(new Set(posts).size, 2);
  assert.equal(posts.length, 2);
});

test("what the shuffler refuses for good is not tried again", async () => {
  const services = await Services.open();
  for (const answer of [
    () => new Response(JSON.stringify({ detail: "the survey is over" }), { status: 400 }),
    () => new Response(JSON.stringify({ reports: 1, refused: [{ index: 0, reason: "bad_length" }] }), { status: 202 }),
  ]) {
    const client = await services.open();
    const survey = await services.survey(client);
    services.onReports(answer);
    await assert.rejects(client.report(survey, "answer 7"), (error) => refused("refused", /shuffler refused/)(error) && error.sent);
    assert.equal(await client.pending(), 0);
  }
});

test("an answer that no shuffler gives leaves the report waiting, in doubt", async () => {
  const services = await Services.open();
  for (const body of ["<html>log in</html>", "{}", '{"reports":2,"refused":[]}', '{"reports":1,"refused":[{"index":1}]}']) {
    const client = await services.open();
    services.onReports(() => new Response(body, { status: 202 }));
    const found = await client.report(await services.survey(client), "answer 7");
    assert.deepEqual([found.state, found.reason], ["waiting", "status 202"]);
  }
});

test("an empty name is no name: whatever lies there is refused", async () => {
  const services = await Services.open();
  const client = await services.open();
  services.answers["GET /v1/surveys/"] = () => new Response(services.bytes);
  await assert.rejects(client.load("https://analyzer.example", ""), refused("tampered", /another survey/));
  await assert.rejects(client.survey(services.bytes, ""), refused("tampered", /another survey/));
});

test("who asks for a survey that is not there is not told what operators are", async () => {
  const services = await Services.open();
  const client = await services.open();
  const detail = "this survey is not known here: add it with 'shoal survey add'";
  services.answers[`GET /v1/surveys/${services.id}`] = () => Response.json({ detail }, { status: 404 });
  await assert.rejects(client.load("https://analyzer.example", services.id), (error) => {
    assert.equal(error.message, "This survey is not here, or no longer here. Nothing was sent.");
    return refused("network")(error);
  });
});

test("surveys that are changed, over, not begun or used up", async () => {
  const services = await Services.open();
  const client = await services.open();
  const survey = await services.survey(client);
  await assert.rejects(client.survey(services.bytes, "0".repeat(64)), refused("tampered", /another survey/));
  const changed = services.bytes.slice();
  changed[50] ^= 1;
  services.answers[`GET /v1/surveys/${services.id}`] = () => new Response(changed);
  await assert.rejects(client.load("https://analyzer.example", services.id), refused("tampered"));
  services.answers[`GET /v1/surveys/${services.id}`] = lost;
  await assert.rejects(client.load("https://analyzer.example", services.id), refused("network"));
  delete services.answers[`GET /v1/surveys/${services.id}`];
  assert.equal((await client.load("https://analyzer.example/", services.id)).id, services.id);
  await assert.rejects(client.load("http://analyzer.example", services.id), refused("policy"));
  for (const occasion of [0, 2, 1.5]) {
    await assert.rejects(client.report(survey, "answer 7", occasion), refused("used-up", /no more than 1 of your reports/));
  }
  for (const answer of ["answer 1000", 7, "", null]) {
    await assert.rejects(client.report(survey, answer), refused("refused", /not one of/));
  }
  await assert.rejects(client.report({ ...survey }, "answer 7"), refused("tampered"));
  services.now = survey.notAfter + 1;
  await assert.rejects(client.report(survey, "answer 7"), refused("expired", /ended on 2027/));
  assert.throws(() => client.check(survey), refused("expired"));
  services.now = survey.notBefore - 1;
  await assert.rejects(client.report(survey, "answer 7"), refused("not-started", /begins on 2027/));
  assert.equal(services.posts.length, 0);
});

test("what waits when a survey ends is given up", async () => {
  const services = await Services.open();
  const client = await services.open();
  const survey = await services.survey(client);
  services.answers["GET /v1/keys"] = lost;
  assert.match((await client.report(survey, "answer 7")).reason, /keys of the shuffler cannot be fetched/);
  delete services.answers["GET /v1/keys"];
  services.now = survey.notAfter + 1;
  for (const hours of [0, 1, 23]) {
    services.now = survey.notAfter + 1 + 3600 * hours;
    const [found] = await client.flush(true);
    assert.deepEqual([found.state, found.due], ["waiting", survey.notAfter + 1 + DAY]);
    assert.match(found.reason, /the survey is over by this device's clock/);
  }
  services.now = survey.notAfter + 1 + DAY;
  const [found] = await client.flush(true);
  assert.deepEqual([found.state, found.reason], ["given-up", "the survey was over before it could be delivered"]);
  assert.equal(services.posts.length, 0);
});

test("a clock that is wrong for a while wipes nothing, and sends nothing after the end", async () => {
  const services = await Services.open();
  const client = await services.open();
  const survey = await services.survey(client);
  services.answers["GET /v1/keys"] = lost;
  await client.report(survey, "answer 7");
  for (const ahead of [4000 * DAY, 0, 4002 * DAY, 3000 * DAY]) {
    services.now = NOW + ahead;
    assert.equal((await client.flush(true))[0].state, "waiting");
  }
  services.now = survey.notAfter + 1; // over indeed: the day counts from here, and not from the wrong date
  assert.equal((await client.flush(true))[0].due, survey.notAfter + 1 + DAY);
  delete services.answers["GET /v1/keys"];
  assert.equal(services.posts.length, 0);
  services.now = survey.notAfter;
  assert.equal((await client.flush(true))[0].state, "sent");
});

test("a report that was tried while the clock was fast is due", async () => {
  const services = await Services.open();
  const client = await services.open();
  const survey = await services.survey(client);
  services.onReports(lost);
  services.now = NOW + 20 * DAY;
  assert.equal((await client.report(survey, "answer 7")).state, "waiting");
  services.now = NOW;
  const [again] = await client.flush();
  assert.ok(again.state === "waiting" && again.due <= NOW + 3600);
  assert.deepEqual(await client.flush(), []); // not yet
  services.onReports();
  services.now = again.due;
  assert.equal((await client.report(survey, "answer 7")).state, "sent");
});

test("the coin is tossed once, and whoever abstains has sent nothing", async () => {
  const services = await Services.open({ participation: 2 ** -40 });
  const client = await services.open({ policy: { delta: 0.5 } });
  const survey = await services.survey(client);
  services.asked.length = 0;
  for (const again of [false, true]) {
    const found = await client.report(survey, "answer 7");
    assert.deepEqual([found.state, found.again, found.bytes], ["abstained", again, 0]);
  }
  assert.deepEqual(services.asked, []);
  assert.equal((await client.ledger())[0].reports, 1);
});

test("opting out wipes what waits, until one opts in again", async () => {
  const services = await Services.open({ reports_per_person: 2 });
  const client = await services.open({ name: "out" });
  const survey = await services.survey(client);
  services.onReports(lost);
  await client.report(survey, "answer 7");
  await client.optOut();
  const [row] = await rows("out");
  assert.deepEqual([row.ending, row.messages.length, row.sealed.length], ["forgotten", 0, 0]);
  assert.deepEqual(await client.flush(true), []);
  assert.throws(() => client.check(survey), refused("policy", /opted out/));
  await assert.rejects(client.report(survey, "answer 7", 2), refused("policy", /opted out/));
  await client.optIn();
  services.onReports();
  assert.equal((await client.report(survey, "answer 7", 2)).state, "sent");
  await assert.rejects(client.report(survey, "answer 7"), refused("refused", /opted out/));
  const [entry] = await client.ledger();
  assert.deepEqual([entry.name, entry.reports, entry.allowed, entry.waiting], ["travel", 2, 2, 0]);
});

test("opting out while a report is under way lets nothing more out", async () => {
  const services = await Services.open();
  const client = await services.open();
  const survey = await services.survey(client);
  services.answers["GET /v1/keys"] = async () => {
    await client.optOut();
    return new Response(await services.shuffler.document());
  };
  await assert.rejects(client.report(survey, "answer 7"), refused("refused", /opted out/));
  assert.equal(services.posts.length, 0);
});

test("keys of somebody else, older ones and contradicting ones are refused", async () => {
  const services = await Services.open();
  const stranger = await Owner.named("shuffler");
  stranger.identity = (await Owner.named("analyzer")).identity;
  const contradicting = async (change) => {
    const other = await Owner.named("shuffler");
    Object.assign(other, services.shuffler, change);
    return other;
  };
  const client = await services.open({ policy: { totalEpsilon: 1e9, totalDelta: 1, totalLocalEpsilon: 1e9 } });
  let surveys = 0;
  const report = async () => {
    const name = `survey ${surveys++}`;
    const next = await Services.open({ name, reports_per_person: 1 });
    services.id = next.id;
    return client.report(await client.survey(next.bytes), "answer 7");
  };
  const shown = (owner) => (services.answers["GET /v1/keys"] = async () => new Response(await owner.document()));
  assert.equal((await report()).state, "sent");
  for (const [owner, words] of [
    [stranger, /not from the party/],
    [await contradicting({ issued: services.shuffler.issued - 1 }), /newer one was seen/],
    [await contradicting({ newest: 1 }), /contradicts/], // another list of the same moment
    [await contradicting({ issued: services.shuffler.issued + 5, changes: { secret: "other" } }), /contradicts/],
    [await contradicting({ issued: services.shuffler.issued + 5, changes: { list: { role: "analyzer" } } }), /not from the party/],
    [await contradicting({ issued: services.shuffler.issued + 5, changes: { list: { valid_until: NOW - 1 } } }), /has expired/],
  ]) {
    shown(owner);
    await client.optOut(); // the kept list is still good: so that another one is asked for
    await client.optIn();
    await assert.rejects(report(), refused("keys", words));
    assert.equal(services.posts.length, 1);
  }
  delete services.answers["GET /v1/keys"];
  const waiting = await client.pending();
  assert.ok(waiting >= 1); // those that were drawn before the keys were refused
});

test("keys of a suite that nobody knows are refused in words", async () => {
  const services = await Services.open();
  const [good] = JSON.parse(new TextDecoder().decode(await services.shuffler.document())).list.keys;
  for (const odd of [{ public: "not-hex" }, { public: "" }, { public: 5 }, { public: "00" }, { suite: "toString" }, { suite: null }]) {
    services.shuffler.changes = { list: { keys: [good, { ...good, number: 9, suite: "future-suite", ...odd }] } };
    const client = await services.open();
    await assert.rejects(client.report(await services.survey(client), "answer 7"), refused("keys", /not written as a list/));
  }
});

test("whatever stops one report, those of other surveys go on", async () => {
  const [first, second] = await Promise.all(["one", "other"].map((name) => Services.open({ name })));
  const client = await first.open();
  first.answers["GET /v1/keys"] = lost;
  for (const { bytes } of [first, second]) await client.report(await client.survey(bytes), "answer 7");
  delete first.answers["GET /v1/keys"];
  const { verify } = crypto.subtle;
  let left = 1;
  first.now += 3600; // no moment that has passed is told as that of the next try
  crypto.subtle.verify = (...asked) => {
    if (left-- > 0) throw new TypeError("nobody has thought of this");
    return verify.apply(crypto.subtle, asked);
  };
  try {
    const found = await client.flush(true);
    assert.deepEqual(found.map(({ state }) => state), ["waiting", "sent"]);
    assert.match(found[0].reason, /nobody has thought/);
    assert.equal(found[0].due, 0);
  } finally {
    crypto.subtle.verify = verify;
  }
});

test("lists of keys are kept for as long as they may be", async () => {
  const services = await Services.open({ reports_per_person: 3 });
  const client = await services.open();
  const survey = await services.survey(client);
  const lists = () => services.asked.filter((asked) => asked.includes("keys")).length;
  await client.report(survey, "answer 7", 1);
  assert.equal(lists(), 2);
  await client.report(survey, "answer 7", 2);
  assert.equal(lists(), 2);
  services.now += 3601;
  await client.report(survey, "answer 7", 3);
  assert.equal(lists(), 4);
  assert.equal(services.seen.size, 3);
});

test("what a person does not allow is refused before anything is drawn", async () => {
  const services = await Services.open();
  const survey = async (client) => services.survey(client);
  for (const [policy, words] of [
    [{ epsilon: 0.4 }, /promised epsilon of 0.5, and you allow at most 0.4/],
    [{ localEpsilon: 0.1 }, /local epsilon/],
    [{ delta: 1e-7 }, /delta/],
    [{ minimum: 2000 }, /batches of 1000 reports/],
    [{ totalEpsilon: 0.001 }, /other surveys/],
    [{ totalDelta: 1e-7 }, /other surveys/],
    [{ totalLocalEpsilon: 0.1 }, /other surveys a total local epsilon/],
    [{ hosts: ["shuffler.example"] }, /analyzer.example/],
    [{ epsilon: Number.NaN }, /promised epsilon/],
  ]) {
    const client = await services.open({ policy });
    services.asked.length = 0;
    const asked = await survey(client);
    assert.throws(() => client.check(asked), refused("policy", words));
    await assert.rejects(client.report(asked, "answer 7"), refused("policy", words));
    assert.deepEqual(services.asked, []);
    assert.equal(await client.pending(), 0);
  }
});

test("totals are over all surveys, and each counts once", async () => {
  const services = await Services.open();
  const other = await Services.open({ name: "another" });
  const open = (policy) => services.open({ name: "totals", policy });
  const first = await open({});
  const asked = await services.survey(first);
  const { epsilon } = first.check(asked);
  assert.ok(epsilon > 0 && epsilon < asked.epsilon);
  await first.report(asked, "answer 7");
  assert.equal((await first.ledger())[0].epsilon, epsilon);
  const second = await open({ totalEpsilon: 1.5 * epsilon });
  assert.equal((await second.report(await services.survey(second), "answer 7")).again, true);
  assert.equal(second.check(await services.survey(second)).epsilon, epsilon);
  const more = await second.survey(other.bytes);
  assert.throws(() => second.check(more), refused("policy", /other surveys/));
  await assert.rejects(second.report(more, "answer 7"), refused("policy", /other surveys/));
});

test("a survey may not send people to machines near them", async () => {
  const inner = { url: "https://router.local", fingerprint: "5".repeat(64) };
  const services = await Services.open({ analyzer: inner });
  const client = await services.open();
  await assert.rejects(client.load("https://shuffler.example", services.id), refused("policy", /router.local/));
  const allowing = await services.open({ policy: { hosts: ["router.local", "shuffler.example"] } });
  assert.equal((await allowing.load("https://shuffler.example", services.id)).id, services.id);
  assert.equal((await client.load("http://localhost:8000", services.id)).id, services.id);
  assert.equal((await services.survey(client)).id, services.id); // this program is near
});

test("addresses that are no address to send to", () => {
  const { hostOf, isPublic } = inside.hosts;
  for (const url of ["https://a.example", "https://a.example:8443/x", "http://localhost:80", "http://127.0.0.1:8000", "http://[::1]:1", "https://xn--bcher-kva.example"]) {
    assert.notEqual(hostOf(url === "http://localhost:80" ? "http://localhost:81" : url), "", url);
  }
  for (const url of ["http://a.example", "https://A.example", "https://a.example/", "https://u@a.example", "https://a.example?q", "https://a.example#f", "https://a.example\\x", "ftp://a.example", "https://1.2.3.400", "https://a b", "https://", "javascript:alert(1)", "https://b\u00fccher.example", "", null, 5]) {
    assert.equal(hostOf(url), "", String(url));
  }
  for (const host of ["a.example", "shuffler.co.uk"]) assert.ok(isPublic(host));
  for (const host of ["localhost", "x.local", "10.0.0.1", "8.8.8.8", "[2001::1]", "router", "x.home.arpa", "a.internal"]) assert.ok(!isPublic(host), host);
});

test("answers of strangers are shown on one short line", () => {
  const { problem, taken, Later } = inside.exchange;
  const reply = { status: 503, headers: new Headers(), body: utf8(JSON.stringify({ detail: `a\n\u001b[31m${"x".repeat(999)}` })) };
  const told = problem(reply);
  assert.ok(told.length < 330 && !/[\p{C}]/u.test(told));
  assert.throws(() => taken(reply), (error) => error instanceof Later && !error.unsent);
});

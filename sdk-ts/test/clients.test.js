import assert from "node:assert/strict";
import { test } from "node:test";

/** What the next calls are answered, and what was asked. */
let answers = [];
let asked = [];
globalThis.wasmkeepHost = {
  "host:actors": {
    call(target, request) {
      asked.push({ target, ...request });
      const answer = answers.shift();
      if (answer.tag) throw { payload: answer };
      return answer;
    },
  },
};

const { load } = await import("./sdk.js");
const { decode, encode } = await load("utf8");
const actors = await load("actors");
const kv = await load("kv");
const queue = await load("queue");
const timers = await load("timers");

function answer(status, headers = {}, body = "") {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { status, headers: Object.entries(headers).map(([name, value]) => [name, encode(value)]), body: encode(text) };
}

/** What a client asks, and what it makes of the answer. */
function ask(work, given) {
  [answers, asked] = [[given], []];
  try {
    return { value: work(), request: asked[0] };
  } catch (error) {
    return { error, request: asked[0] };
  }
}

const headersOf = ({ headers }) => Object.fromEntries(headers.map(([name, value]) => [name, decode(value)]));

test("a refusal of the host is no answer of the callee", () => {
  const failure = (given) => ask(() => actors.call("a/b").done(), given).error;
  const table = [
    [429, "queue-full", "not-run", "no", true],
    [503, "no-capacity", "not-run", "no", true],
    [503, "unavailable", "unknown", "unknown", false],
    [500, "trapped", "ran", "yes", false],
    [403, "forbidden", "not-run", "no", false],
  ];
  for (const [status, reason, event, ran, mayBeRetried] of table) {
    const headers = { "x-wasmkeep-reason": reason, "x-wasmkeep-event": event };
    const error = failure(answer(status, headers, '{"reason":"x"}'));
    assert.equal(error.case, "refused");
    assert.deepEqual(error.refusal, { status, reason, ran });
    assert.equal(error.mayBeRetried(), mayBeRetried, reason);
  }
  const own = failure(answer(503, {}, { error: "mine" }));
  assert.deepEqual([own.case, own.status, own.words, own.mayBeRetried()], ["answered", 503, "mine", false]);
  assert.equal(failure(answer(404, {}, "no such page")).message, "the called actor answered 404: no such page");
  assert.equal(failure(answer(302)).status, 302);
  assert.equal(failure(answer(204)), undefined);
});

test("what a client of a store says goes into three headers", () => {
  const store = new kv.Client("kv/a");
  const options = { expect: 7, ttlMs: 1500.2, durable: true };
  const { value, request } = ask(() => store.set("a/é!", "x", options), answer(204, { etag: '"8"' }));
  assert.equal(value, 8);
  assert.deepEqual([request.target, request.method, request.path], ["kv/a", "PUT", "/keys/a%2F%C3%A9%21"]);
  assert.deepEqual(headersOf(request), {
    "x-wasmkeep-kv-expect": "7",
    "x-wasmkeep-kv-ttl-ms": "1501",
    "x-wasmkeep-kv-durable": "true",
  });
  const absent = ask(() => store.set("a", "x", { expect: "absent" }), answer(412)).request;
  assert.deepEqual(headersOf(absent), { "x-wasmkeep-kv-expect": "absent" });
});

test("a version that is missing by mistake sets nothing", () => {
  const { error, request } = ask(() => new kv.Client("kv/a").set("k", "x", { expect: undefined }), answer(204));
  assert.match(error.message, /`expect` is undefined/);
  assert.equal(request, undefined);
});

test("a store's answers are told apart", () => {
  const store = new kv.Client("kv/a");
  const absent = answer(404, {}, { error: "there is no such key" });
  assert.equal(ask(() => store.get("k"), absent).value, undefined);
  assert.equal(ask(() => store.delete("k"), absent).value, false);
  assert.equal(ask(() => store.get("k"), answer(404, {}, { error: "another" })).error.case, "answered");
  const entry = ask(() => store.get("k"), answer(200, { etag: '"3"', "kv-expires-ms": "5" }, "[1]")).value;
  assert.deepEqual([entry.json(), entry.version, entry.expires.getTime()], [[1], 3, 5]);
  assert.equal(ask(() => store.get("k"), answer(200, {}, "x")).error.case, "unreadable");
  const conflict = ask(() => store.set("k", "x"), answer(412, { etag: '"3"' })).error;
  assert.deepEqual([conflict.name, conflict.version], ["ConflictError", 3]);
  assert.equal(ask(() => store.delete("k"), answer(412)).error.version, undefined);
  const unanswered = ask(() => store.get("k"), { tag: "timeout" }).error;
  assert.deepEqual([unanswered.case, unanswered.cause.case], ["not-answered", "timeout"]);
  const listed = { key: "u/1", version: 2, size: 3, expires_ms: null };
  const page = ask(() => store.list("u/", { after: "u/0", limit: 1 }), answer(200, {}, { keys: [listed], next: "u/1" }));
  assert.equal(page.request.path, "/keys?prefix=u%2F&limit=1&after=u%2F0");
  assert.deepEqual(page.value, { keys: [{ key: "u/1", version: 2, size: 3, expires: undefined }], next: "u/1" });
  for (const body of ["[]", "null", "x", '{"keys":[7]}']) {
    assert.equal(ask(() => store.list(""), answer(200, {}, body)).error.case, "unreadable", body);
  }
});

test("a queue's client asks and reads as the queue answers", () => {
  const mails = new queue.Client("queue/mails");
  const sent = ask(() => mails.sendJson({ to: "ann" }, { delayMs: 0.5 }), answer(201, {}, { id: 4 }));
  assert.equal(sent.value, 4);
  assert.equal(decode(sent.request.body), '{"to":"ann"}');
  assert.deepEqual(headersOf(sent.request), { "x-wasmkeep-queue-delay-ms": "1" });
  const messages = [{ id: 4, body: '{"to":"ann"}', attempt: 1, sent_ms: 9, receipt: "r+1" }];
  const received = ask(() => mails.receive(10, 60_000), answer(200, {}, { messages }));
  assert.equal(received.request.path, "/receive?max=10&lease-ms=60000");
  const [message] = received.value;
  assert.deepEqual([message.json(), message.sent.getTime()], [{ to: "ann" }, 9]);
  const acked = ask(() => mails.ack(message), answer(409, {}, { error: "its lease has ended" }));
  assert.equal(acked.request.path, "/messages/4/ack?receipt=r%2B1");
  assert.deepEqual([acked.error.name, acked.error.id], ["LeaseEndedError", 4]);
  assert.throws(() => mails.receive(1, Number.NaN), RangeError);
  const notDead = answer(404, {}, { error: "there is no dead message 4" });
  assert.equal(ask(() => mails.requeue(4), notDead).value, false);
  assert.equal(ask(() => mails.deleteDead(4), answer(204)).value, true);
  assert.equal(ask(() => mails.requeue(4), answer(404, {}, { error: "not found" })).error.case, "answered");
});

test("a timer's key that is none is refused before anything is stored", () => {
  for (const key of ["", "é".repeat(513)]) {
    assert.throws(() => timers.setAt(key, 0), /a timer's key has 1 to 1024 bytes/);
  }
  assert.throws(() => timers.setAfter("k", Number.NaN), RangeError);
});

import assert from "node:assert/strict";
import { test } from "node:test";

/** What the next call is answered, and what was asked. */
let given;
let asked;
globalThis.wasmkeepHost = {
  "host:actors": {
    call(target, request) {
      asked = { target, ...request };
      if (given.tag) throw { payload: given };
      return given;
    },
  },
};

const { load } = await import("./sdk.js");
const { decode, encode } = await load("utf8");
const { Failure } = await load("failure");
const { ActorError } = await load("error");
const { Request } = await load("request");
const service = await load("service/index");
const { read } = await load("service/shape");

const Stock = service.define("Stock", {
  error: service.variants({ TooFew: { left: "integer" }, Closed: null }),
  methods: {
    put: { takes: ["integer"], gives: "integer" },
    take: { takes: ["integer", "text"] },
    count: { gives: { pairs: "integer", note: "text?" } },
  },
});

const answer = (status, body, headers = {}) => ({
  status,
  headers: Object.entries(headers).map(([name, value]) => [name, encode(value)]),
  body: encode(body),
});

/** What a call gives or throws, when it is answered that. */
function called(answered, work) {
  given = answered;
  try {
    return { value: work(Stock.client("stock/blue socks")) };
  } catch (error) {
    return { error };
  }
}

/** What a server answers: status and body. */
async function served(server, path, body, method = "POST") {
  const request = new Request(method, path);
  request.json = () => JSON.parse(body);
  const response = await Stock.serve(request, server);
  return [response.statusCode, decode(response.settle("POST"))];
}

test("a call is on the wire what it is in Rust", () => {
  const wire = (work, body) => {
    called(answer(200, body), work);
    return [asked.target, asked.method, asked.path, decode(asked.body)];
  };
  assert.deepEqual(wire((stock) => stock.take(2, "ann"), "null"), ["stock/blue socks", "POST", "/Stock/take", '[2,"ann"]']);
  assert.deepEqual(wire((stock) => stock.put(2), "2").slice(2), ["/Stock/put", "[2]"]);
  assert.deepEqual(wire((stock) => stock.count(), '{"pairs":2}').slice(2), ["/Stock/count", "null"]);
});

test("an answer is a value, the service's error or a failure", () => {
  assert.deepEqual(called(answer(200, "7"), (stock) => stock.put(1)), { value: 7 });
  assert.deepEqual(called(answer(200, "null"), (stock) => stock.take(1, "ann")), { value: undefined });
  const counted = called(answer(200, '{"pairs":2,"more":1}'), (stock) => stock.count());
  assert.deepEqual(counted.value, { pairs: 2, note: null });
  const { error } = called(answer(422, '{"own":{"TooFew":{"left":1}}}'), (stock) => stock.put(1));
  assert.ok(error instanceof Stock.Error);
  assert.deepEqual(error.own, { TooFew: { left: 1 } });
  assert.equal(error.message, '{"TooFew":{"left":1}}');
  for (const [given, which, words] of [
    // A 422 that is not the service's own.
    [answer(422, '{"error":"no"}'), "answered", "no"],
    [answer(422, '{"own":"Open"}'), "answered", '{"own":"Open"}'],
    [answer(409, '{"error":"taken"}'), "answered", "taken"],
    [answer(200, '"seven"'), "unreadable", undefined],
    [answer(200, "[7"), "unreadable", undefined],
    [answer(429, "{}", { "x-wasmkeep-reason": "queue-full", "x-wasmkeep-event": "not-run" }), "refused", undefined],
    [{ tag: "timeout" }, "not-answered", undefined],
  ]) {
    const { error } = called(given, (stock) => stock.put(1));
    assert.ok(error instanceof Failure, String(error));
    assert.deepEqual([error.case, error.words], [which, words]);
    assert.equal(error.mayBeRetried(), which === "refused");
  }
});

test("a server's values and errors are answers, also of async methods", async () => {
  const server = {
    put: (pairs) => pairs + 1,
    take: async (pairs) => {
      if (pairs > 1) throw new Stock.Error({ TooFew: { left: 1 } });
    },
    count() {
      return { pairs: this.put(1), note: null };
    },
  };
  assert.deepEqual(await served(server, "/Stock/put", "[2]"), [200, "3"]);
  assert.deepEqual(await served(server, "/Stock/take", '[1,"ann"]'), [200, "null"]);
  assert.deepEqual(await served(server, "/Stock/take", '[2,"ann"]'), [422, '{"own":{"TooFew":{"left":1}}}']);
  assert.deepEqual(await served(server, "/Stock/count", "null"), [200, '{"pairs":2,"note":null}']);
  const taken = { put: () => { throw ActorError.status(409, "taken"); } };
  await assert.rejects(served(taken, "/Stock/put", "[2]"), { statusCode: 409, message: "taken" });
});

test("what is no call of the service is refused", async () => {
  for (const [path, body, status, says] of [
    ["/Stock/toString", "null", 404, /the service Stock has no method "toString"/],
    ["/Stock", "null", 404, /this is the service Stock/],
    ["/Shop/put", "[1]", 404, /this is the service Stock/],
    ["/Stock/put/x", "[1]", 404, /this is the service Stock/],
    ["/Stock/put", "[1,2]", 400, /does not fit: expected a list of 1, found a list of 2/],
    ["/Stock/put", '["1"]', 400, /does not fit: \[0\]: expected integer, found a string/],
    ["/Stock/count", "[]", 400, /does not fit: null is the body/],
  ]) {
    await assert.rejects(served({}, path, body), (error) => error.statusCode === status && says.test(error.message), path);
  }
  await assert.rejects(served({}, "/Stock/put", "[1]", "GET"), { statusCode: 405 });
  assert.throws(() => service.define("My Stock", { methods: {} }), /no name/);
});

test("a value fits its shape, or it is said where it does not", () => {
  const { list, map, optional, variants } = service;
  const either = variants({ Closed: null, Left: ["integer"] });
  for (const [shape, value] of [
    ["any", [1, { a: null }]],
    ["integer?", null],
    ["real", 1.5],
    [list({ name: "text" }), [{ name: "a" }]],
    [map("boolean"), { a: true, b: false }],
    [optional(list("text")), null],
    [["text", { at: list("integer") }], ["x", { at: [1] }]],
    [either, "Closed"],
    [either, { Left: [2] }],
  ]) {
    assert.deepEqual(read(shape, value, ""), value);
  }
  for (const [shape, value, says] of [
    ["integer", 1.5, "expected integer, found a number"],
    ["integer", 2 ** 53, "expected integer, found a number"],
    ["any", undefined, "expected any, found nothing"],
    [{ a: { b: "text" } }, { a: {} }, "a.b: expected text, found nothing"],
    [{ a: "text" }, [], "expected an object, found a list of 0"],
    [list("text"), ["a", null], "[1]: expected text, found null"],
    [map("text"), { a: 1 }, "a: expected text, found a number"],
    [either, "Left", "expected one of Closed, Left, found a string"],
    [either, { Closed: 1 }, "expected one of Closed, Left, found an object"],
    [either, { Left: [1], Closed: null }, "expected one of Closed, Left, found an object"],
    [either, "toString", "expected one of Closed, Left, found a string"],
  ]) {
    assert.throws(() => read(shape, value, ""), { message: says });
  }
  assert.throws(() => read("intger", 1, ""), /is no kind of value/);
});

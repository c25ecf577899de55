import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./sdk.js";

const { matchRoute } = await load("route");
const { Response, toJson } = await load("response");
const { Request, Form, cookieIn } = await load("request");
const { Headers } = await load("headers");
const { ActorError } = await load("error");
const { callerOf } = await load("caller");
const front = await load("front");
const { parseUrl } = await load("outbound/url");

const request = (method, target) => new Request(method, target);

test("a route takes method and decoded segments", () => {
  assert.deepEqual(matchRoute("GET /", "GET", []), {});
  assert.deepEqual(matchRoute("GET /", "HEAD", []), {});
  assert.deepEqual(matchRoute("PUT /items/:id", "PUT", ["items", "a/b"]), { id: "a/b" });
  assert.equal(matchRoute("PUT /items/:id", "PUT", ["items", "a", "b"]), undefined);
  assert.equal(matchRoute("PUT /items/:id", "POST", ["items", "a"]), undefined);
  assert.deepEqual(matchRoute("* /files/*", "PURGE", ["files", "a", "b"]), { rest: ["a", "b"] });
  assert.deepEqual(matchRoute("GET /files/*", "GET", ["files"]), { rest: [] });
  for (const wrong of ["/items", "GET items", "GET /*/a", "GET  /a"]) {
    assert.throws(() => matchRoute(wrong, "GET", []), /is no route/, wrong);
  }
});

test("the first route that fits answers, and 404 when none does", () => {
  const answer = request("GET", "/items/a%20b?q=1").route({
    "GET /items/new": () => Response.text("new"),
    "GET /items/:id": ({ id }) => Response.text(id),
    "GET /*": () => Response.text("rest"),
  });
  assert.equal(new TextDecoder().decode(answer.settle("GET")), "a b");
  assert.equal(request("GET", "/").route({ "POST /": () => Response.empty() }).statusCode, 404);
});

test("a query parameter that does not parse is a 400 that names it", () => {
  const asked = request("GET", "/?limit=many&n=7&n=8&empty=&big=9007199254740993&x=1.5");
  assert.equal(asked.query("n"), "7");
  assert.equal(asked.queryInteger("n"), 7);
  assert.equal(asked.queryInteger("absent"), undefined);
  assert.equal(asked.queryNumber("x"), 1.5);
  for (const name of ["limit", "empty", "big", "x"]) {
    assert.throws(() => asked.queryInteger(name), (error) => error.statusCode === 400 && error.message.includes(`\`${name}\``));
  }
});

test("cookies and forms are found among others", () => {
  const bytes = (text) => Uint8Array.from(text, (char) => char.charCodeAt(0));
  const headers = [bytes("a=1; session=x=y ;b"), new Uint8Array([0xff]), bytes("last=%20")];
  assert.equal(cookieIn(headers, "session"), "x=y");
  assert.equal(cookieIn(headers, "last"), "%20");
  assert.equal(cookieIn(headers, "b"), undefined);
  assert.equal(new Form([["a", "1"], ["a", "2"]]).get("a"), "1");
});

test("a whole body has its length, and HEAD, 204 and 304 have none", () => {
  const settled = (response, method = "GET") => [response.settle(method)?.length ?? 0, response.headers.get("content-length")];
  assert.deepEqual(settled(Response.text("é")), [2, "2"]);
  assert.deepEqual(settled(Response.text("hello").header("content-length", 4)), [5, "5"]);
  assert.deepEqual(settled(Response.text("hello"), "HEAD"), [0, "5"]);
  assert.deepEqual(settled(new Response()), [0, "0"]);
  assert.deepEqual(settled(new Response(undefined, { headers: { "content-length": 99 } }), "HEAD"), [0, "99"]);
  assert.deepEqual(settled(Response.empty()), [0, undefined]);
  assert.deepEqual(settled(Response.text("x").status(304)), [0, undefined]);
  assert.throws(() => new Response().status(101).settle("GET"), (error) => error.cause === "101 is no status of a response");
});

test("an error answers JSON with its status, and 500 where that is none", () => {
  const answer = Response.ofError(ActorError.status(409, 'name "a" is taken'));
  assert.equal(answer.statusCode, 409);
  assert.equal(new TextDecoder().decode(answer.settle("GET")), '{"error":"name \\"a\\" is taken"}');
  for (const status of [0, 100, 199, 1000, 200.5]) {
    assert.equal(Response.ofError(ActorError.status(status, "x")).statusCode, 500);
  }
});

test("a bigint is a number of JSON with all its digits", () => {
  assert.equal(toJson({ n: 9007199254740993n, s: "1n", a: [-1n] }), '{"n":9007199254740993,"s":"1n","a":[-1]}');
  assert.throws(() => toJson(undefined), TypeError);
});

test("headers compare without case, set replaces, append adds", () => {
  const headers = new Headers({ "X-A": "1" });
  headers.append("x-a", "2");
  assert.equal(headers.getAll("x-A").length, 2);
  headers.set("x-a", 3);
  assert.deepEqual([...headers], [["x-a", new Uint8Array([0x33])]]);
  assert.equal(new Headers([["x", new Uint8Array([0xff])]]).get("x"), undefined);
});

test("a caller is the front, an actor or a client", () => {
  assert.equal(callerOf(undefined), "outside");
  assert.equal(callerOf("nonsense"), "outside");
  assert.equal(callerOf("default/_front/main"), "front");
  assert.equal(callerOf("t/room/a%2Fb%20c").toString(), "t/room/a/b c");
});

test("a hand-off names the actor in three headers", () => {
  const { headers, statusCode } = front.handOff("room", "café/1", "/?user=7");
  assert.equal(headers.get("x-wasmkeep-handoff-class"), "room");
  assert.equal(headers.get("x-wasmkeep-handoff-name"), "caf%C3%A9%2F1");
  assert.equal(headers.get("x-wasmkeep-handoff-path"), "/?user=7");
  assert.equal(statusCode, 426);
});

test("a URL is taken apart, and what is none says what to write", () => {
  for (const [text, authority, path] of [
    ["https://a.example", "a.example", "/"],
    ["HTTPS://a.example?x=1", "a.example", "/?x=1"],
    ["http://a.example:8443/b/c?d=/e#f", "a.example:8443", "/b/c?d=/e"],
    ["https://[2001:db8::1]/#/x", "[2001:db8::1]", "/"],
  ]) {
    const url = parseUrl(text);
    assert.deepEqual([url.authority, url.pathAndQuery], [authority, path], text);
  }
  for (const text of ["", "a.example/b", "ftp://a.example", "https://", "https:///b"]) {
    assert.throws(() => parseUrl(text), (why) => typeof why === "string", text);
  }
});

// The test kit on the real server. `cargo xtask test` says where server and guest are; without them
// there is nothing to run it on.

import assert from "node:assert/strict";
import { test } from "node:test";

import { eventually, Node } from "../dist/test.js";

const PROBE = process.env.WASMKEEP_TEST_PROBE;
const skip = PROBE === undefined && "WASMKEEP_TEST_PROBE names no guest";

async function onNode(body) {
  const node = await Node.start({ actors: { probe: PROBE } });
  try {
    await body(node);
  } finally {
    await node.close();
  }
}

test("an alarm runs when the clock is moved", { skip }, () =>
  onNode(async (node) => {
    const actor = node.actor("probe/a");
    (await actor.post("/alarm?in=3600000")).ok();
    const at = async () => (await actor.get("/alarm")).json().at;
    await node.advance(3_599_000);
    assert.equal(typeof (await at()), "number");
    await node.advance(1_000);
    await eventually("it runs", async () => (await at()) === null);
  }));

test("data outlives sleep, a crash and a restart", { skip }, () =>
  onNode(async (node) => {
    const actor = node.actor("probe/a");
    const steps = ["CREATE TABLE t (n)", "INSERT INTO t VALUES (7)"].map((sql) => ({ op: "exec", sql }));
    (await actor.post("/sql", JSON.stringify({ steps }))).ok();
    assert.equal((await actor.get("/memory")).text(), "1");
    await node.sleep("probe/a");
    assert.equal((await actor.get("/memory")).text(), "1", "in another instance");
    await node.crash();
    assert.deepEqual(await node.sql("probe/a", "SELECT n FROM t"), [{ n: 7 }]);
    await node.restart();
    assert.deepEqual(await node.sql("probe/a", "SELECT n FROM t"), [{ n: 7 }]);
    assert.equal((await actor.get("/no-such-path")).status, 404);
  }));

test("what happens is followed", { skip }, () =>
  onNode(async (node) => {
    const tail = await node.tail();
    (await node.actor("probe/a").get("/log?text=hello-tail")).ok();
    const line = await tail.waitFor("the line", (record) => record.kind === "log");
    assert.equal(line.text, "hello-tail");
    tail.close();
    await eventually("the log has it", () => node.log.includes("hello-tail"));
  }));

test("a server that does not start says why", { skip }, async () => {
  await assert.rejects(Node.start({ actors: { a: "/no/such/file.wasm" } }), /did not start.*cannot be read/s);
});

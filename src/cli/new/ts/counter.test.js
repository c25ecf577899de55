// The counter on the real server: built as wasmkeep.toml says.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Node } from "@wasmkeep/sdk/test";

test("a count outlives sleep and a crash", async () => {
  const node = await Node.ofProject();
  try {
    const alice = node.actor("counter/alice");
    assert.equal((await alice.post("/add?n=41")).json().total, 41);
    await node.sleep("counter/alice");
    assert.match((await alice.get("/")).text(), /visit 42/);
    await node.crash();
    assert.equal((await alice.get("/history?limit=1")).json()[0].total, 42);
    assert.match((await node.actor("counter/bob").get("/")).text(), /visit 1\n/);
  } finally {
    await node.close();
  }
});

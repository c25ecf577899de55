// The front and the counter behind it, on the real server.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Node } from "@wasmkeep/sdk/test";

test("the page counts visits", async () => {
  const node = await Node.ofProject();
  try {
    const page = node.client();
    assert.match((await page.get("/")).text(), /Visit 1/);
    assert.match((await page.get("/")).text(), /Visit 2/);
    assert.equal((await page.get("/nothing")).status, 404);
    assert.equal((await node.sql("counter/visits", "SELECT total FROM changes")).length, 2);
  } finally {
    await node.close();
  }
});

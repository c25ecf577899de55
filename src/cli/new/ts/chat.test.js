// The chat on the real server. Sockets need a client: Node.js has one from version 22 on.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Node } from "@wasmkeep/sdk/test";

test("the page is served, and a room takes a socket", async () => {
  const node = await Node.ofProject();
  try {
    const page = node.client();
    assert.match((await page.get("/rooms/tea")).text(), /<title>Chat<\/title>/);
    assert.match((await page.get("/chat.js")).text(), /new WebSocket/);
    assert.equal((await page.get("/rooms/a%20b")).status, 404);
    if (globalThis.WebSocket === undefined) return;
    const socket = new WebSocket(node.socketUrl("/rooms/tea/socket?name=Ann"));
    const welcome = await new Promise((done, failed) => {
      socket.onmessage = (message) => done(JSON.parse(message.data));
      socket.onerror = () => failed(new Error("the socket failed"));
    });
    assert.deepEqual(welcome.people, ["Ann"]);
    socket.close();
  } finally {
    await node.close();
  }
});

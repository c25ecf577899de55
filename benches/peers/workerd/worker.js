// What the load program asks of a Durable Object: the same as tests/guests/bench asks of an actor.

import { DurableObject } from "cloudflare:workers";

const ROWS = 100;

export class Bench extends DurableObject {
  #hasTable = false;
  #nextRow = 0;

  async fetch(request) {
    if (request.headers.get("upgrade") === "websocket") return this.#open();
    const { pathname, searchParams } = new URL(request.url);
    const [, , , , op, other] = pathname.split("/");
    switch (op) {
      case "hello":
        return new Response("hello");
      case "read":
        return new Response(String(this.#read()));
      case "durable":
        // The answer waits for the write: that is what an output gate does.
        return new Response(String(this.#write()));
      case "call": {
        const stub = this.env.BENCH.get(this.env.BENCH.idFromName(other));
        return stub.fetch(`http://bench/actor/bench/${other}/hello`);
      }
      case "alarm":
        return this.#setAlarm(Number(searchParams.get("at")));
      case "late":
        return new Response(String(this.#late() ?? ""));
      default:
        return new Response("not found", { status: 404 });
    }
  }

  alarm() {
    this.#makeTable();
    this.ctx.storage.sql.exec("INSERT OR REPLACE INTO t VALUES (-1, ?)", Date.now());
  }

  webSocketMessage(socket, message) {
    if (message.startsWith("e")) {
      socket.send(message);
    } else {
      for (const each of this.ctx.getWebSockets()) each.send(message);
    }
  }

  #open() {
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  #makeTable() {
    if (this.#hasTable) return;
    const table = "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v INTEGER NOT NULL)";
    this.ctx.storage.sql.exec(table);
    this.#hasTable = true;
  }

  #row() {
    this.#nextRow = (this.#nextRow + 1) % ROWS;
    return this.#nextRow;
  }

  #read() {
    this.#makeTable();
    const rows = this.ctx.storage.sql.exec("SELECT v FROM t WHERE k = ?", this.#row()).toArray();
    return rows[0]?.v ?? 0;
  }

  #write() {
    this.#makeTable();
    const row = this.#row();
    const write = "INSERT INTO t VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = v + 1";
    this.ctx.storage.sql.exec(write, row, 1);
    return this.ctx.storage.sql.exec("SELECT v FROM t WHERE k = ?", row).one().v;
  }

  async #setAlarm(at) {
    this.#makeTable();
    this.ctx.storage.sql.exec("INSERT OR REPLACE INTO t VALUES (-2, ?)", at);
    await this.ctx.storage.setAlarm(at);
    return new Response("");
  }

  #late() {
    const late = "SELECT ran.v - due.v AS ms FROM t AS ran JOIN t AS due ON ran.k = -1 AND due.k = -2";
    return this.ctx.storage.sql.exec(late).toArray()[0]?.ms;
  }
}

export default {
  fetch(request, env) {
    const name = new URL(request.url).pathname.split("/")[3];
    if (name === undefined) return new Response("hello");
    return env.BENCH.get(env.BENCH.idFromName(name)).fetch(request);
  },
};

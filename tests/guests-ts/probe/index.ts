// The conformance guest in TypeScript: does what a request tells it to, as tests/guests/probe does,
// whose list of requests holds here, but for `/wasi`: JavaScript calls no WASI of its own.

import { Actor, ActorError, actors, alarms, type outbound, type Request, Response, storage, websockets } from "@wasmkeep/sdk";

import { nothing } from "./below.js";
import * as calling from "./calling.js";
import * as fetch from "./fetch.js";
import * as host from "./host.js";
import { answer } from "./http.js";
import * as sql from "./sql.js";
import * as steps from "./steps.js";
import * as work from "./work.js";

export default class Probe extends Actor {
  private asked = 0;
  private readonly kept: Uint8Array[] = [];
  private readonly answers: outbound.Answer[] = [];
  private inits = 0;

  override init(): void {
    const { name } = actors.self();
    if (name.startsWith("nostore")) return;
    storage.exec("CREATE TABLE IF NOT EXISTS init_log (at INTEGER)");
    storage.exec("INSERT INTO init_log VALUES (unixepoch())");
    if (name.startsWith("callinit")) {
      const saw = JSON.stringify([host.addressJson(), host.callInInit()]);
      storage.exec("CREATE TABLE IF NOT EXISTS init_saw (saw)");
      storage.exec("INSERT INTO init_saw VALUES (?)", [saw]);
    }
    if (name.startsWith("trapinit")) work.trap();
    const flaky = name.startsWith("flakyinit") && this.inits++ === 0;
    if (flaky || name.startsWith("badinit")) throw ActorError.internal("told to fail");
  }

  override request(request: Request): Response | Promise<Response> {
    const [first, ...rest] = request.segments;
    if (first === undefined) return Response.notFound();
    if (rest.length > 0) return answer(request);
    switch (first) {
      case "memory":
        return Response.text(String(++this.asked));
      case "init":
        return Response.text(String(storage.queryOne("integer", "SELECT count(*) FROM init_log")));
      case "grow":
        return work.grow(request, this.kept);
      case "burn":
        return work.burn(request);
      case "wait":
        return work.wait(request);
      case "span":
        return work.span(request);
      case "loop":
        return work.spin();
      case "stack":
        return Response.text(String(work.recurse(1)));
      case "trap":
      case "panic":
        return work.trap();
      case "error": {
        const status = request.queryInteger("status");
        throw status === undefined ? ActorError.internal("told to fail") : ActorError.status(status, "told to fail");
      }
      case "nothing":
        return nothing();
      case "sql":
        return steps.run(request);
      case "on-alarm":
        return steps.keep(request);
      case "spin-sql":
        return sql.spin();
      case "trap-in-transaction":
        sql.leaveOpen(request);
        return work.trap();
      case "leave-open":
        sql.leaveOpen(request);
        return Response.text("left open");
      case "error-in-transaction":
        sql.leaveOpen(request);
        throw ActorError.status(409, "told to fail");
      case "alarm":
        return host.alarm(request);
      case "alarms":
        return host.alarmsThatRan();
      case "address":
        return Response.json(host.addressJson());
      case "call":
        return calling.call(request);
      case "call-many":
        return calling.callMany(request);
      case "env":
        return calling.env(request);
      case "fetch":
        return fetch.one(request);
      case "fetch-stream":
        return fetch.stream(request);
      case "fetch-hold":
        return fetch.hold(request);
      case "fetch-upload":
        return fetch.upload(request);
      case "fetch-keep":
        return fetch.keep(request, this.answers);
      case "fetch-kept":
        return fetch.readKept(this.answers);
      case "sockets":
        return host.sockets();
      case "send":
        return host.send(request);
      case "close":
        return host.close(request);
      case "broadcast":
        return host.broadcast(request);
      default:
        return answer(request);
    }
  }

  override alarm(): void {
    const { name } = actors.self();
    if (name.startsWith("trapalarm")) work.trap();
    if (name.startsWith("badalarm")) throw ActorError.internal("told to fail");
    storage.exec("CREATE TABLE IF NOT EXISTS alarm_log (at, attempt)");
    storage.exec("INSERT INTO alarm_log VALUES (?, ?)", [Date.now(), alarms.attempt()]);
    steps.alarmScript();
  }

  override socketOpen(socket: websockets.Socket, request: websockets.OpenRequest): void {
    if (request.query("trap") !== undefined) work.trap();
    const reason = request.query("refuse");
    if (reason !== undefined) throw ActorError.status(403, reason);
    if (request.query("echo") !== undefined) {
      socket.setAttachment(JSON.stringify(host.openRequestJson(request)));
    } else {
      socket.setAttachment(request.query("name") ?? "");
    }
  }

  override socketMessage(socket: websockets.Socket, message: websockets.Message): void {
    if (message === "trap") work.trap();
    if (message === "error") throw ActorError.internal("told to fail");
    if (message === "close") socket.close(4000, "told to close");
    else socket.send(message);
  }

  override socketClose(socket: websockets.Socket, code: number, reason: string): void {
    const attachment = new TextDecoder().decode(socket.attachment() ?? new Uint8Array(0));
    websockets.broadcast(`closed ${socket.id} ${code} ${JSON.stringify(reason)} ${JSON.stringify(attachment)}`);
  }
}

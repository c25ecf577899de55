// What the other functions of the host answer.

import { ActorError, actors, alarms, type Request, Response, SqlError, storage, websockets } from "@wasmkeep/sdk";

import { called, callerText, headersJson } from "./calling.js";
import { orFailed } from "./sql.js";

const utf8 = new TextDecoder();

export function addressJson(): object {
  const { tenant, class: actorClass, name } = actors.self();
  return { tenant, class: actorClass, name };
}

export function alarm(request: Request): Response {
  return Response.json(
    pending(() => {
      if (request.method === "POST") {
        const after = request.queryInteger("in");
        const at = request.queryInteger("at");
        if (after !== undefined) alarms.setAfter(after);
        else if (at !== undefined) alarms.setAt(at);
        else throw ActorError.badRequest("say ?in= or ?at=");
      } else if (request.method === "DELETE") {
        alarms.clear();
      }
    }),
  );
}

/** The alarm that is pending once `work` is done, and the attempt that runs. */
export function pending(work: () => void): object {
  return orFailed(() => {
    work();
    return { at: alarms.getMs() ?? null, attempt: alarms.attempt() };
  });
}

export function alarmsThatRan(): Response {
  try {
    return Response.json(storage.queryAs(["integer", "integer"], "SELECT at, attempt FROM alarm_log"));
  } catch (error) {
    // None has run.
    if (error instanceof SqlError && error.case === "invalid") return Response.json([]);
    throw error;
  }
}

export function callInInit(): object {
  return called("probe/called", { path: "/echo" });
}

/** One call as data. A body of `body-size` bytes, no text, is made here. */
export interface CallStep {
  target: string;
  method?: string;
  path?: string;
  headers?: [string, string][];
  body?: string;
  "body-size"?: number;
}

export function callOf(step: CallStep): actors.Call {
  const size = step["body-size"] ?? 0;
  return {
    target: step.target,
    method: step.method ?? "GET",
    path: step.path ?? "/hello",
    headers: step.headers ?? [],
    body: size > 0 ? new Uint8Array(size).fill(0xff) : (step.body ?? ""),
  };
}

/** `{path, caller, headers}` of the upgrade a client asked for. */
export function openRequestJson(request: websockets.OpenRequest): object {
  return {
    path: request.pathAndQuery,
    caller: callerText(request.caller()),
    headers: headersJson(request.headers),
  };
}

/** `[[id, attachment]…]` */
export function sockets(): Response {
  const told = websockets.connections().map((socket) => {
    const attachment = socket.attachment();
    return [socket.id, attachment === undefined ? null : utf8.decode(attachment)];
  });
  return Response.json(told);
}

/** Sends the body as text to `?socket=`. */
export function send(request: Request): Response {
  const text = request.text();
  return done(() => socketOf(request).send(text));
}

export function close(request: Request): Response {
  const code = request.queryInteger("code") ?? 1000;
  return done(() => socketOf(request).close(code, request.query("reason") ?? ""));
}

/** Sends the body as text to all. */
export function broadcast(request: Request): Response {
  return Response.json({ sent: websockets.broadcast(request.text()) });
}

function socketOf(request: Request): websockets.Socket {
  const id = request.queryInteger("socket");
  if (id === undefined) throw ActorError.badRequest("say ?socket=");
  return new websockets.Socket(id);
}

function done(work: () => void): Response {
  try {
    work();
    return Response.json({ ok: true });
  } catch (error) {
    if (!(error instanceof websockets.SocketError)) throw error;
    // As the Rust guest writes it: `TooLarge`.
    const name = error.case.replace(/(?:^|-)(\w)/g, (_, first: string) => first.toUpperCase());
    return Response.json({ error: name });
  }
}

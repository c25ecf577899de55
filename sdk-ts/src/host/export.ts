// Between what the host calls and an author's module. Used by the module that `wasmkeep-ts build`
// writes around it.

import "./globals.js";

import type { HostHeader } from "host:actors";
import http, { type Fields, type IncomingRequest, type ResponseOutparam } from "host:http";
import type { HostMessage } from "host:websockets";

import { Actor } from "../actor.js";
import { ActorError, forTheLog } from "../error.js";
import type { Front, FrontHandler } from "../front.js";
import { awaitNow, isThenable } from "../promise.js";
import { Request } from "../request.js";
import { Response, type WriteBody } from "../response.js";
import { type Message, OpenRequest, Socket } from "../websockets.js";
import { BodyWriter, ClosedError } from "./body.js";
import { drop, ENGINE } from "./engine.js";
import { fieldsOf } from "./fields.js";
import { logLine } from "./output.js";

type ActorClass = new () => Actor;

/** What an actor's component exports. */
export function exportActor(exported: unknown) {
  const ActorOf = actorClass(exported);
  let memory: Actor | undefined;
  const actor = () => (memory ??= new ActorOf());
  const handle = (request: Request) => actor().request(request);
  const event = (work: (actor: Actor) => void | Promise<void>) => failing(() => work(actor()), forTheLog);
  return {
    incomingHandler: handler(handle),
    onInit: () => event((actor) => actor.init()),
    onAlarm: () => event((actor) => actor.alarm()),
    onWebsocketOpen: (id: number | bigint, request: { path: string; headers: HostHeader[] }) =>
      failing(
        () => actor().socketOpen(new Socket(Number(id)), new OpenRequest(request)),
        (thrown) => {
          const error = ActorError.from(thrown);
          log("WebSocket open", error);
          return error.message;
        },
      ),
    onWebsocketMessage: (id: number | bigint, message: HostMessage) =>
      event((actor) => actor.socketMessage(new Socket(Number(id)), message.val as Message)),
    onWebsocketClose: (id: number | bigint, code: number, reason: string) =>
      event((actor) => actor.socketClose(new Socket(Number(id)), code, reason)),
  };
}

/** What a front's component exports. */
export function exportFront(exported: unknown) {
  const front = exported as Front | undefined;
  if (typeof front?.handle !== "function") {
    throw new TypeError("the entry has to `export default defineFront((request) => …)`");
  }
  return { incomingHandler: handler(front.handle) };
}

function actorClass(exported: unknown): ActorClass {
  const isActor = typeof exported === "function" && exported.prototype instanceof Actor;
  if (!isActor) {
    throw new TypeError("the entry has to `export default class … extends Actor`");
  }
  return exported as ActorClass;
}

/** The one function the host calls with requests. */
function handler(handle: FrontHandler) {
  return {
    handle: (incoming: IncomingRequest, to: ResponseOutparam) =>
      after(
        () => answer(incoming, to, handle),
        () => undefined,
        (error) => {
          // A mistake of the SDK itself.
          logLine(forTheLog(error));
          throw error;
        },
      ),
  };
}

function answer(incoming: IncomingRequest, to: ResponseOutparam, handle: FrontHandler): void | Promise<void> {
  const request = Request.receive(incoming);
  const what = `${request.method} ${request.path}`;
  const answered = after(
    () => handle(request),
    (response) => send(prepared(request, response, what), to, what),
    (error) => send(prepared(request, failed(what, error), what), to, what),
  );
  return after(
    () => answered,
    () => request.end(),
    (error) => {
      request.end();
      throw error;
    },
  );
}

/** Runs what may be async, and goes on with what it gives or throws. */
function after<T, R>(
  work: () => T | Promise<T>,
  done: (value: T) => R | Promise<R>,
  failed: (error: unknown) => R | Promise<R>,
): R | Promise<R> {
  let value: T | Promise<T>;
  try {
    value = work();
    // The small engine has no loop of its own that would finish a promise: it is finished here.
    if (ENGINE === "small") value = awaitNow(value);
  } catch (error) {
    return failed(error);
  }
  return isThenable(value) ? Promise.resolve(value).then(done, failed) : done(value as T);
}

/** Handlers other than `request`: what they throw becomes the error the host is given, a text. */
function failing(work: () => void | Promise<void>, text: (error: unknown) => string): void | Promise<void> {
  let failure: { text: string } | undefined;
  const fail = (error: unknown) => {
    failure = { text: text(error) };
  };
  const end = () => {
    // The engines take the error of a `result` as what is thrown.
    if (failure) throw failure.text;
  };
  return after<void, void>(() => after(work, () => undefined, fail), end, end);
}

function failed(what: string, thrown: unknown): Response {
  const error = ActorError.from(thrown);
  log(what, error);
  return Response.ofError(error);
}

/** Writes what the client will not see to the log. */
function log(what: string, error: ActorError): void {
  if (error.statusCode >= 200 && error.statusCode < 500) return;
  logLine(`${what}: ${error.statusCode}: ${forTheLog(error)}`);
}

interface Prepared {
  status: number;
  fields: Fields;
  content: Uint8Array | WriteBody | undefined;
}

function prepared(request: Request, response: Response, what: string): Prepared {
  const { method } = request;
  try {
    request.close();
    if (!(response instanceof Response)) {
      throw ActorError.internal("the handler returned no Response");
    }
    return prepare(response, method);
  } catch (error) {
    return prepare(failed(what, error), method);
  }
}

function prepare(response: Response, method: string): Prepared {
  const content = response.settle(method);
  return { status: response.statusCode, fields: fieldsOf(response.headers, "response"), content };
}

function send({ status, fields, content }: Prepared, to: ResponseOutparam, what: string): void | Promise<void> {
  const outgoing = new http.OutgoingResponse(fields);
  // Every outgoing response starts as a 200.
  if (status !== 200) outgoing.setStatusCode(status);
  const body = content === undefined ? undefined : outgoing.body();
  const out = body && new BodyWriter(body);
  http.ResponseOutparam.set(to, { tag: "ok", val: outgoing });
  if (!body || !out) return;
  return after(
    () => (typeof content === "function" ? content(out) : out.write(content as Uint8Array)),
    () => {
      out.close();
      try {
        http.OutgoingBody.finish(body, undefined);
      } catch (thrown) {
        // It fails too when the client has left, which is nobody's mistake.
        const tag = (thrown as { payload?: { tag?: string } }).payload?.tag;
        if (tag === "HTTP-response-body-size") {
          logLine(`${what}: the body is not as long as its content-length`);
        }
      }
    },
    (error) => {
      const left = out.readerLeft;
      out.close();
      // A body that is dropped unfinished ends as cut off.
      drop(body);
      if (!left || !(error instanceof ClosedError)) {
        logLine(`${what}: the response was cut off: ${forTheLog(error)}`);
      }
    },
  );
}

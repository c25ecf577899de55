// The front: a component that answers every path of a node but `/actor/…` and `/_wasmkeep/…`. It has
// no state: each request gets an instance of its own, and nothing of it lasts.

import type { CallError } from "./actors.js";
import { CALLER, type Caller, callerOf } from "./caller.js";
import { ActorError } from "./error.js";
import { logLine } from "./host/output.js";
import type { Request } from "./request.js";
import { Response } from "./response.js";
import { percentEncode } from "./target.js";

export type { Caller } from "./caller.js";

const UPGRADE = "x-wasmkeep-upgrade";
const HANDOFF_CLASS = "x-wasmkeep-handoff-class";
const HANDOFF_NAME = "x-wasmkeep-handoff-name";
const HANDOFF_PATH = "x-wasmkeep-handoff-path";

/** Answers a request to the front. */
export type FrontHandler = (request: Request) => Response | Promise<Response>;

/** What a front's module exports: see {@link defineFront}. */
export interface Front {
  /** @internal */
  readonly handle: FrontHandler;
}

/** Makes a function the front of this component: `export default defineFront((request) => …)`. */
export function defineFront(handle: FrontHandler): Front {
  if (typeof handle !== "function") throw new TypeError("defineFront takes the function that answers requests");
  return { handle };
}

/** Who sent this request: an actor asks it to answer its front only. */
export function caller(request: Request): Caller {
  return callerOf(request.header(CALLER));
}

/** The host the client asked for, with its port if it named one: `example.org:8080`. */
export function host(request: Request): string | undefined {
  return request.header("host") ?? request.authority;
}

/**
 * `https` or `http`: the first `X-Forwarded-Proto`, only as good as the proxy that sets it, else
 * `http`.
 */
export function scheme(request: Request): "http" | "https" {
  const first = request.header("x-forwarded-proto")?.split(",")[0];
  return first?.trim().toLowerCase() === "https" ? "https" : "http";
}

/**
 * Whether the client asks for a WebSocket: such a request may be answered with {@link handOff}. The
 * host says it, and nobody else can.
 */
export function wantsWebsocket(request: Request): boolean {
  return request.header(UPGRADE) === "websocket";
}

/**
 * Hands the client's WebSocket over to the actor `class/name`, an `internal` one too: it gets
 * `socketOpen` with this path and query, and every event of the socket comes from inside. When it
 * refuses, the client gets 403 with its reason. This instance ends with the answer.
 *
 * What the actor shall know, such as who signed in, goes into the path: a client that comes through
 * the front cannot write it. The path is percent-encoded and starts with `/`. A client that asked for
 * no WebSocket gets what this is otherwise: 426.
 */
export function handOff(actorClass: string, name: string, path: string): Response {
  return Response.text("this is for WebSockets\n")
    .status(426)
    .header(HANDOFF_CLASS, actorClass)
    .header(HANDOFF_NAME, percentEncode(name))
    .header(HANDOFF_PATH, path);
}

/**
 * The answer when an actor could not be asked: 503 with `Retry-After: 1` for `failed` and `timeout`,
 * which a retry may mend, and 500 for the others, which it will not. The log gets the error.
 */
export function unavailable(error: CallError): Response {
  logLine(error.message);
  if (error.case === "failed" || error.case === "timeout") {
    return Response.text("not available now; try again\n").status(503).header("retry-after", 1);
  }
  return Response.ofError(ActorError.internal(error));
}

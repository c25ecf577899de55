// This actor's address, and calls to other actors of the same tenant and app.

import host, { type HostCallError, type HostRequest, type HostResponse } from "host:actors";
import hostCalls from "host:calls";

import { ActorError } from "./error.js";
import { Failure, type Ran, type Refusal } from "./failure.js";
import { Headers, type HeadersInit } from "./headers.js";
import { payloadOf, wellFormed } from "./host/engine.js";
import { toJson } from "./response.js";
import { decode, decodeLossy, encode } from "./utf8.js";

export { Failure, type FailureCase, type Ran, type Refusal } from "./failure.js";

const REASON = "x-wasmkeep-reason";
const EVENT = "x-wasmkeep-event";
/** How much of an answer's body goes into an error's text. */
const SHOWN_BYTES = 200;

/** Who an actor is. As text: `tenant/class/name`. */
export class Address {
  /** Who owns the app; `default` on a node that serves no deployed app. */
  readonly tenant: string;
  /** Which component. */
  readonly class: string;
  /** Which of its actors: the name as it is, not percent-encoded. */
  readonly name: string;

  constructor(tenant: string, actorClass: string, name: string) {
    this.tenant = tenant;
    this.class = actorClass;
    this.name = name;
  }

  toString(): string {
    return `${this.tenant}/${this.class}/${this.name}`;
  }
}

/** The address of the actor this code runs as. In the front: `<tenant>/_front/main`. */
export function self(): Address {
  const address = host.selfAddress();
  return new Address(address.tenant, address.class, address.name);
}

/** What to ask another actor. */
export interface CallOptions {
  /** `GET` unless said. */
  method?: string;
  /** Path and query as the callee shall see them: `/items?limit=20`. `/` unless said. */
  path?: string;
  headers?: HeadersInit;
  /** At most 16 MiB. */
  body?: string | Uint8Array;
  /** A value that is written as JSON, in place of `body`; sets `content-type`. */
  json?: unknown;
}

/** One of several calls: see {@link callMany}. */
export interface Call extends CallOptions {
  /** `class/name`, the name as it is, not percent-encoded. */
  target: string;
}

/**
 * Calls the actor `class/name` (the name as it is, not percent-encoded) and waits for the answer,
 * while this event stays open: other events of this actor wait. Every answer is returned, also a 404
 * or a 500: see {@link Answer.ok}. Throws a {@link CallError}.
 */
export function call(target: string, options: CallOptions = {}): Answer {
  const request = requestOf(options);
  try {
    return new Answer(host.call(wellFormed(target), request));
  } catch (thrown) {
    throw new CallError(payloadOf<HostCallError>(thrown));
  }
}

/**
 * Starts up to 16 calls together and returns one result each, in the order given, when all have
 * answered or the batch's one deadline has passed. The requests together and the answers together
 * hold at most 16 MiB. More than 16 calls: every result is a {@link CallError} of case `failed`.
 */
export function callMany(calls: readonly Call[]): (Answer | CallError)[] {
  const sent = calls.map((call): [string, HostRequest] => [wellFormed(call.target), requestOf(call)]);
  return hostCalls
    .callMany(sent)
    .map((result) => (result.tag === "ok" ? new Answer(result.val) : new CallError(result.val)));
}

function requestOf(options: CallOptions): HostRequest {
  const headers = new Headers(options.headers);
  let body = options.body ?? "";
  if (options.json !== undefined) {
    body = toJson(options.json);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
  }
  return {
    method: wellFormed(options.method ?? "GET"),
    path: wellFormed(options.path ?? "/"),
    headers: [...headers],
    body: typeof body === "string" ? encode(body) : body,
  };
}

/** What another actor answered. */
export class Answer {
  /** The status. */
  readonly status: number;
  /** Every header. */
  readonly headers: Headers;
  /** The body. */
  readonly bytes: Uint8Array;

  /** @internal */
  constructor(response: HostResponse) {
    this.status = response.status;
    this.headers = new Headers(response.headers);
    this.bytes = response.body;
  }

  /** The first value of a header, if it is there and is text. */
  header(name: string): string | undefined {
    return this.headers.get(name);
  }

  /**
   * This answer if its status is 2xx; else throws an error whose text (in the log) has the status and
   * the start of the body.
   */
  ok(): this {
    if (this.status >= 200 && this.status < 300) return this;
    const start = decodeLossy(this.bytes.subarray(0, SHOWN_BYTES));
    throw ActorError.internal(new Error(`the called actor answered ${this.status}: ${start}`));
  }

  /** What the host said, if it made this answer in the callee's place. No guest can make one. */
  refusal(): Refusal | undefined {
    const reason = this.header(REASON);
    if (reason === undefined) return undefined;
    const event = this.header(EVENT);
    const ran: Ran = event === "not-run" ? "no" : event === "ran" ? "yes" : "unknown";
    return { status: this.status, reason, ran };
  }

  /**
   * This answer if its status is 2xx; else throws a {@link Failure}, for a caller that tells failures
   * apart. For others, {@link ok} will do.
   */
  done(): this {
    if (this.status >= 200 && this.status < 300) return this;
    const refusal = this.refusal();
    throw refusal ? Failure.refused(refusal) : Failure.answered(this.status, this.#words());
  }

  /** The text of `{"error": "…"}`, else the start of the body. */
  #words(): string {
    try {
      const { error } = this.json<{ error?: unknown }>();
      if (typeof error === "string") return error;
    } catch {
      // It is another kind of body.
    }
    return decodeLossy(this.bytes.subarray(0, SHOWN_BYTES));
  }

  /** The body as text. Throws where it is not UTF-8. */
  text(): string {
    const text = decode(this.bytes);
    if (text === undefined) throw new TypeError("the called actor's answer is not UTF-8");
    return text;
  }

  /** The body, read as JSON; the type is not checked. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }
}

/**
 * Why a call has no answer:
 *
 * | case | means |
 * |---|---|
 * | `timeout` | the call's time ran out; whether the callee ran is unknown |
 * | `reentrant` | the callee is waiting further up this chain of calls: it would wait for itself |
 * | `invalid-address` | not a `class/name`, or no class of this app. Nothing ran |
 * | `failed` | anything else; the text says how, and whether the callee ran |
 */
export type CallErrorCase = "timeout" | "reentrant" | "invalid-address" | "failed";

const WORDS = {
  timeout: "the call timed out; whether the callee ran is unknown",
  reentrant: "the callee is waiting for this call, directly or through others",
  "invalid-address": "no such address: a call goes to `class/name`, a class of this app",
};

/** Why a call has no answer: see {@link CallErrorCase}. */
export class CallError extends Error {
  override readonly name = "CallError";
  readonly case: CallErrorCase;
  /** Of `failed`: how. */
  readonly how: string | undefined;

  /** @internal */
  constructor(error: HostCallError) {
    super(error.tag === "failed" ? `the call failed: ${error.val}` : WORDS[error.tag]);
    this.case = error.tag;
    this.how = error.tag === "failed" ? error.val : undefined;
  }
}

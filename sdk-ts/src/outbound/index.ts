// HTTP requests to the outside. They reach public addresses, and what the operator opened
// (`--allow-outbound`). Redirects are answers like others, connections and cookies are not kept. An
// actor has at most 16 requests open at once, each until its answer's body has been read or closed.

import http, { type ErrorCode, type IncomingResponse, type OutgoingRequest, type RequestOptions } from "host:http";
import type { StreamError } from "host:io/streams";
import handler from "host:outgoing-handler";

import { ActorError } from "../error.js";
import { Headers, type HeadersInit } from "../headers.js";
import { Body, BodyWriter } from "../host/body.js";
import { drop, payloadOf, u64, wellFormed } from "../host/engine.js";
import { fieldsOf } from "../host/fields.js";
import { methodToHost } from "../request.js";
import { toJson } from "../response.js";
import { decode, decodeLossy, encode } from "../utf8.js";
import { type Exchange, finishAll, readBeside, Upload } from "./upload.js";
import { parseUrl } from "./url.js";

/** How much of an answer's body goes into an error's text. */
const SHOWN_BYTES = 200;

/** What to ask a server. */
export interface FetchOptions {
  /** `GET` unless said. */
  method?: string;
  /** `host` and those of the connection are the host's. */
  headers?: HeadersInit;
  body?: string | Uint8Array;
  /** A value that is written as JSON, in place of `body`; sets `content-type`. */
  json?: unknown;
  /**
   * How many milliseconds each step may take: connecting, the first byte of the answer, and the time
   * between two pieces of its body. 30,000 unless said, 60,000 at most.
   */
  timeoutMs?: number;
}

/** One of several requests: see {@link fetchAll}. */
export interface Fetch extends FetchOptions {
  url: string;
}

/**
 * Sends a request and waits for the head of the answer, while this event stays open: other events of
 * this actor wait. Every answer is returned, also a 404 or a redirect: see {@link Answer.ok}. Throws an
 * {@link OutboundError}. For several at once, {@link fetchAll}.
 */
export function fetch(url: string, options: FetchOptions = {}): Answer {
  const [result] = fetchAll([{ url, ...options }]);
  if (result instanceof Answer) return result;
  throw result;
}

/**
 * Sends several requests together, and returns one result each, in the order given, when all have
 * answered or failed. Up to 16 may be open at once: more fail with `connection-limit-reached`.
 */
export function fetchAll(fetches: readonly Fetch[]): (Answer | OutboundError)[] {
  const started = fetches.map(start);
  const outcomes = finishAll(started.filter((one) => !(one instanceof OutboundError)) as Exchange[]);
  return started.map((one) => {
    if (one instanceof OutboundError) return one;
    const { response, error, upload } = outcomes.shift() ?? { response: undefined, error: { tag: "internal-error" }, upload: undefined };
    return response ? new Answer(response, upload) : OutboundError.failed(error);
  });
}

/**
 * Sends a request with a body that is written piece by piece, as the server takes it, and then waits
 * for the answer. A server that takes no more ends the writing; its answer says why.
 */
export function upload(url: string, write: (out: BodyWriter) => void, options: Omit<FetchOptions, "body" | "json"> = {}): Answer {
  const [request, settings] = prepare({ url, method: "POST", ...options }, new Headers(options.headers));
  const body = request.body();
  const out = new BodyWriter(body);
  const answer = sent(request, settings);
  try {
    write(out);
    out.close();
    http.OutgoingBody.finish(body, undefined);
  } catch (error) {
    const left = out.readerLeft;
    out.close();
    // What was written is not all: dropping the body says so. Where the server took no more, its
    // answer says why.
    drop(body);
    if (!left) {
      drop(answer);
      const code = (error as { payload?: ErrorCode }).payload;
      throw code ? OutboundError.failed(code) : error;
    }
  }
  const [outcome] = finishAll([{ upload: undefined, answer }]);
  if (outcome?.response) return new Answer(outcome.response, undefined);
  throw OutboundError.failed(outcome?.error ?? { tag: "internal-error" });
}

function start(fetch: Fetch): Exchange | OutboundError {
  try {
    const headers = new Headers(fetch.headers);
    let body = fetch.body ?? "";
    if (fetch.json !== undefined) {
      body = toJson(fetch.json);
      if (!headers.has("content-type")) headers.set("content-type", "application/json");
    }
    const bytes = typeof body === "string" ? encode(body) : body;
    if (bytes.length > 0) headers.set("content-length", bytes.length);
    const [request, settings] = prepare(fetch, headers);
    const upload = bytes.length > 0 ? new Upload(bytes, request.body()) : undefined;
    return { upload, answer: sent(request, settings) };
  } catch (error) {
    if (error instanceof OutboundError) return error;
    throw error;
  }
}

function sent(request: OutgoingRequest, options: RequestOptions | undefined) {
  try {
    return handler.handle(request, options);
  } catch (thrown) {
    throw OutboundError.failed(payloadOf<ErrorCode>(thrown));
  }
}

function prepare(fetch: Fetch, headers: Headers): [OutgoingRequest, RequestOptions | undefined] {
  const url = notSent(() => parseUrl(wellFormed(fetch.url)));
  const request = new http.OutgoingRequest(notSent(() => fieldsOf(headers, "request")));
  const set = (what: string, work: () => void) => {
    try {
      work();
    } catch {
      throw OutboundError.notSent(`the host does not take ${what}`);
    }
  };
  set("the method", () => request.setMethod(methodToHost(wellFormed(fetch.method ?? "GET"))));
  set("the scheme", () => request.setScheme(url.scheme));
  set("the URL's host", () => request.setAuthority(url.authority));
  set("the URL's path and query", () => request.setPathWithQuery(url.pathAndQuery));
  if (fetch.timeoutMs === undefined) return [request, undefined];
  const options = new http.RequestOptions();
  const wait = u64(Math.max(0, Math.round(fetch.timeoutMs * 1_000_000)));
  set("the timeout", () => {
    options.setConnectTimeout(wait);
    options.setFirstByteTimeout(wait);
    options.setBetweenBytesTimeout(wait);
  });
  return [request, options];
}

function notSent<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (typeof error === "string") throw OutboundError.notSent(error);
    if (error instanceof ActorError) throw OutboundError.notSent(String(error.cause));
    throw error;
  }
}

/** What a server answered: its head, and its body as it arrives. Closing the body ends the request. */
export class Answer {
  /** The status. */
  readonly status: number;
  /** Every header. */
  readonly headers: Headers;
  /** The body, to read piece by piece. One that breaks off is an error, never an end. */
  readonly body: Body;

  /** @internal */
  constructor(response: IncomingResponse, rest: Upload | undefined) {
    this.status = response.status();
    const fields = response.headers();
    this.headers = new Headers(fields.entries());
    drop(fields);
    this.body = Body.of(response, answerFailure, rest && readBeside(rest));
    drop(response);
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
    const start = decodeLossy((this.body.chunk() ?? new Uint8Array(0)).subarray(0, SHOWN_BYTES));
    this.body.close();
    throw ActorError.internal(new Error(`the server answered ${this.status}: ${start}`));
  }

  /** The whole body. */
  bytes(): Uint8Array {
    return this.body.bytes();
  }

  /** The whole body as text. Throws where it is not UTF-8. */
  text(): string {
    const text = decode(this.bytes());
    if (text === undefined) throw new TypeError("the server's answer is not UTF-8");
    return text;
  }

  /** The whole body, read as JSON; the type is not checked. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }
}

function answerFailure(error: StreamError): Error {
  const io = error.tag === "last-operation-failed" ? error.val : undefined;
  const code = io && http.httpErrorCode(io);
  drop(io);
  return OutboundError.failed(code ?? { tag: "internal-error" });
}

/** Why a request to the outside has no answer, or why its answer broke off. */
export class OutboundError extends Error {
  override readonly name = "OutboundError";
  /**
   * The case of `wasi:http`'s `error-code`, as it is written there: `destination-IP-prohibited`,
   * `connection-refused`, `DNS-error`. None: the request was wrong as written, and not sent.
   */
  readonly code: string | undefined;

  private constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }

  /** @internal */
  static notSent(why: string): OutboundError {
    return new OutboundError(`not sent: ${why}`);
  }

  /** @internal */
  static failed(code: ErrorCode): OutboundError {
    return new OutboundError(`the request failed: ${code.tag}`, code.tag);
  }
}

import { ActorError } from "./error.js";
import { Headers, type HeaderValue, type HeadersInit } from "./headers.js";
import type { BodyWriter } from "./host/body.js";
import { encode } from "./utf8.js";

/** Writes the body of a response while it goes out. */
export type WriteBody = (out: BodyWriter) => void | Promise<void>;

/** Status and headers to start with. */
export interface ResponseInit {
  status?: number;
  headers?: HeadersInit;
}

/** @internal */
export type Content = undefined | string | Uint8Array | WriteBody;

/** What a response may have. A 1xx is not one: another response would have to follow. */
export function isStatus(status: number): boolean {
  return Number.isInteger(status) && status >= 200 && status <= 999;
}

/**
 * An HTTP response. A function of this class makes a complete 200; change what you need:
 *
 * `Response.json({ id: 7 }).status(201).header("location", "items/7")`
 *
 * The SDK sets `content-length` for a body it has whole, and leaves out the body of an answer to
 * `HEAD` and of a 204 or 304. The host removes headers that are its own (`x-wasmkeep-…`).
 */
export class Response {
  /** The headers set so far. */
  readonly headers: Headers;
  #status: number;
  #content: Content;

  /** A body, or none, with status 200 unless said otherwise. No `content-type` is set. */
  constructor(body?: string | Uint8Array | undefined, init: ResponseInit = {}) {
    this.#status = init.status ?? 200;
    this.headers = new Headers(init.headers);
    this.#content = body;
  }

  /** 204: done, with nothing to say. */
  static empty(): Response {
    return new Response(undefined, { status: 204 });
  }

  /** Plain text, in UTF-8. */
  static text(text: string, init?: ResponseInit): Response {
    return Response.#of("text/plain; charset=utf-8", text, init);
  }

  /** An HTML page, in UTF-8. */
  static html(page: string, init?: ResponseInit): Response {
    return Response.#of("text/html; charset=utf-8", page, init);
  }

  /**
   * A value written as JSON. A bigint is written as a number, with all its digits. A value that
   * cannot be written (one that contains itself, say) throws.
   */
  static json(value: unknown, init?: ResponseInit): Response {
    return Response.#of("application/json", toJson(value), init);
  }

  /** 404, as an `ActorError` would answer it. `ActorError.notFound` says what was not found. */
  static notFound(): Response {
    return Response.ofError(ActorError.notFound("not found"));
  }

  /**
   * 303: the browser goes on to `location` with a `GET`. A path such as `/done` leaves the actor's
   * address; a relative one, such as `done`, starts at the URL the browser is at.
   */
  static redirect(location: string): Response {
    return new Response(undefined, { status: 303, headers: { location } });
  }

  /**
   * A body that is written while it goes out: `Response.stream((out) => out.write("…"))`.
   *
   * The function runs after the handler has returned, in the same event: it may use storage, and the
   * event's limits hold. Status and headers are with the client by then; when it throws, the error is
   * logged and the response is cut off, which the client can see.
   */
  static stream(write: WriteBody, init?: ResponseInit): Response {
    const response = new Response(undefined, init);
    response.#content = write;
    return response;
  }

  /** What an error answers: its status, and `{"error": "…"}`. */
  static ofError(error: ActorError): Response {
    const status = isStatus(error.statusCode) ? error.statusCode : 500;
    return Response.json({ error: error.message }).status(status);
  }

  static #of(contentType: string, body: string, init?: ResponseInit): Response {
    const response = new Response(body, init);
    if (!response.headers.has("content-type")) response.headers.append("content-type", contentType);
    return response;
  }

  /** The status. */
  get statusCode(): number {
    return this.#status;
  }

  /** Changes the status. */
  status(status: number): this {
    this.#status = status;
    return this;
  }

  /** Sets a header, in place of values it had. Several `set-cookie`: see {@link appendHeader}. */
  header(name: string, value: HeaderValue): this {
    this.headers.set(name, value);
    return this;
  }

  /** Adds a header beside the values it has. */
  appendHeader(name: string, value: HeaderValue): this {
    this.headers.append(name, value);
    return this;
  }

  /**
   * Decides on length and body for an answer to this method.
   * @internal
   */
  settle(method: string): Uint8Array | WriteBody | undefined {
    if (!isStatus(this.#status)) {
      throw ActorError.internal(`${this.#status} is no status of a response`);
    }
    const body = this.#content;
    const content = typeof body === "string" ? encode(body) : body;
    const mayHaveBody = this.#status !== 204 && this.#status !== 304;
    if (mayHaveBody && content instanceof Uint8Array) {
      this.headers.set("content-length", content.length);
    } else if (mayHaveBody && content === undefined && method !== "HEAD") {
      this.headers.set("content-length", 0);
    }
    const nothingToSend = content instanceof Uint8Array && content.length === 0;
    return !mayHaveBody || method === "HEAD" || nothingToSend ? undefined : content;
  }
}

interface RawJson {
  rawJSON?(text: string): unknown;
}

const DIGITS = /"__wasmkeep_integer:(-?\d+)"/g;

/** As `JSON.stringify`, but bigints are numbers, as SQLite means them. */
export function toJson(value: unknown): string {
  let has = false;
  const text = JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== "bigint") return inner;
    const raw = (JSON as RawJson).rawJSON;
    if (raw) return raw(String(inner));
    has = true;
    return `__wasmkeep_integer:${inner}`;
  });
  if (text === undefined) throw new TypeError(`${typeof value} is no value of JSON`);
  return has ? text.replace(DIGITS, "$1") : text;
}

import type { IncomingRequest, Method } from "host:http";

import { ActorError, jsonOfClient } from "./error.js";
import { Headers } from "./headers.js";
import { Body, requestFailure } from "./host/body.js";
import { drop } from "./host/engine.js";
import { Response } from "./response.js";
import { matchRoute, type RouteParams } from "./route.js";
import { pairsOf, pathOf, queryOf, segmentsOf } from "./target.js";
import { decode } from "./utf8.js";

/** Answers the requests that fit a route. */
export type RouteHandler<R extends string> = (params: RouteParams<R>) => Response | Promise<Response>;

/** What a request can be asked about its path and query; also the upgrade to a WebSocket has it. */
export class Target {
  #segments: string[] | undefined;
  #pairs: [string, string][] | undefined;

  /** @internal */
  constructor(
    /** Path and query as they came: `/items/a%20b?limit=20`. */
    readonly pathAndQuery: string,
  ) {}

  /** The path below the actor's address, as the client encoded it: `/items/a%20b`. */
  get path(): string {
    return pathOf(this.pathAndQuery);
  }

  /**
   * The path's segments, percent-decoded: `["items", "a b"]`. Empty ones are left out, so `/items/`
   * is `/items`, and `/` has none.
   */
  get segments(): readonly string[] {
    return (this.#segments ??= segmentsOf(this.path));
  }

  /** The first value of a query parameter, percent-decoded: `20` for `limit` in `?limit=20`. */
  query(name: string): string | undefined {
    return this.queryPairs().find(([have]) => have === name)?.[1];
  }

  /** Every query parameter with its value, percent-decoded, in order. */
  queryPairs(): readonly (readonly [string, string])[] {
    return (this.#pairs ??= pairsOf(queryOf(this.pathAndQuery)));
  }

  /**
   * A query parameter as an integer that a number holds exactly. Not one: an error that answers 400
   * and names the parameter.
   */
  queryInteger(name: string): number | undefined {
    return this.#parsed(name, (text) => (/^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN), Number.isSafeInteger);
  }

  /** A query parameter as a number. Not one: an error that answers 400 and names the parameter. */
  queryNumber(name: string): number | undefined {
    return this.#parsed(name, (text) => (text.trim() === "" ? Number.NaN : Number(text)), Number.isFinite);
  }

  #parsed(name: string, parse: (text: string) => number, fits: (n: number) => boolean): number | undefined {
    const text = this.query(name);
    if (text === undefined) return undefined;
    const n = parse(text);
    if (!fits(n)) throw ActorError.badRequest(`query parameter \`${name}\`: ${JSON.stringify(text)} is not valid`);
    return n;
  }
}

/** An HTTP request, from a client or from another actor. */
export class Request extends Target {
  /** The method, in upper case as clients send it: `GET`. */
  readonly method: string;
  /** The host the client asked for, with its port if it named one. */
  readonly authority: string | undefined;
  #incoming: IncomingRequest | undefined;
  #headers: Headers | undefined;
  #body: Body | undefined;
  #closed = false;

  /** @internal */
  constructor(method: string, target: string, authority?: string, incoming?: IncomingRequest) {
    super(target);
    this.method = method;
    this.authority = authority;
    this.#incoming = incoming;
  }

  /** @internal */
  static receive(incoming: IncomingRequest): Request {
    const method = methodName(incoming.method());
    return new Request(method, incoming.pathWithQuery() ?? "/", incoming.authority() ?? undefined, incoming);
  }

  /** Every header. */
  get headers(): Headers {
    if (!this.#headers) {
      if (this.#closed) throw new Error("the headers are read before the handler returns: const { headers } = request");
      const fields = this.#incoming?.headers();
      this.#headers = new Headers(fields?.entries());
      drop(fields);
    }
    return this.#headers;
  }

  /** The first value of a header, if it is there and is text. */
  header(name: string): string | undefined {
    return this.headers.get(name);
  }

  /** A cookie the browser sent, as it stands there: nothing is decoded. */
  cookie(name: string): string | undefined {
    return cookieIn(this.headers.getAll("cookie"), name);
  }

  /**
   * The values of a route's names where this request fits it, else none:
   * `request.match("PUT /items/:id")?.id`.
   */
  match<const R extends string>(route: R): RouteParams<R> | undefined {
    return matchRoute(route, this.method, this.segments) as RouteParams<R> | undefined;
  }

  /**
   * Answers with the first route that fits, else 404. A route is a method and a path; `:name` takes
   * one segment, percent-decoded, a last `*` all that are left (`rest`). `HEAD` fits `GET`, and the
   * method `*` fits all.
   *
   * ```ts
   * return request.route({
   *   "GET /items": () => list(),
   *   "PUT /items/:id": ({ id }) => put(id, request.json()),
   * });
   * ```
   */
  route<const R extends string>(routes: { [Route in R]: RouteHandler<Route> }): Response | Promise<Response> {
    for (const route of Object.keys(routes) as R[]) {
      const params = this.match(route);
      if (params !== undefined) return routes[route](params);
    }
    return Response.notFound();
  }

  /** The body, to read piece by piece; it may still be read while a streamed response goes out. */
  get body(): Body {
    if (!this.#body && this.#closed) {
      throw new Error("the body is taken before the handler returns: const { body } = request");
    }
    return (this.#body ??= Body.of(this.#incoming, requestFailure));
  }

  /**
   * The whole body. Over 16 MiB: an error that answers 413. A body is read once; what was read before
   * is not in it.
   */
  bytes(): Uint8Array {
    return this.body.bytes();
  }

  /** The whole body as text. Not UTF-8: an error that answers 400. */
  text(): string {
    const text = decode(this.bytes());
    if (text === undefined) throw ActorError.badRequest("the request body is not UTF-8");
    return text;
  }

  /** The whole body, read as JSON: unchecked, a client may send anything. Not JSON: 400. */
  json<T = unknown>(): T {
    return jsonOfClient("the request body", decode(this.bytes())) as T;
  }

  /** The fields of an HTML form that a browser posted. Another `content-type`: 415. */
  form(): Form {
    const type = (this.header("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
    if (type !== "application/x-www-form-urlencoded") {
      throw ActorError.status(415, "the body is to be a form: content-type application/x-www-form-urlencoded");
    }
    return new Form(pairsOf(this.text()));
  }

  /**
   * Gives the request back to the host. A body that was taken may still be read.
   * @internal
   */
  close(): void {
    drop(this.#incoming);
    this.#incoming = undefined;
    this.#closed = true;
  }

  /**
   * The event is over: nobody reads any further.
   * @internal
   */
  end(): void {
    this.#body?.close();
    this.close();
  }
}

/** The fields of an HTML form: see {@link Request.form}. */
export class Form {
  /** @internal */
  constructor(
    /** Every field with its value, in order. */
    readonly pairs: readonly (readonly [string, string])[],
  ) {}

  /** The first value of a field. */
  get(name: string): string | undefined {
    return this.pairs.find(([have]) => have === name)?.[1];
  }
}

/** @internal */
export function cookieIn(headers: Uint8Array[], name: string): string | undefined {
  for (const header of headers) {
    for (const pair of (decode(header) ?? "").split(";")) {
      const text = pair.trim();
      const at = text.indexOf("=");
      if (at >= 0 && text.slice(0, at) === name) return text.slice(at + 1);
    }
  }
  return undefined;
}

/** @internal */
export function methodName(method: Method): string {
  return method.tag === "other" ? (method.val as string) : method.tag.toUpperCase();
}

const METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/** @internal */
export function methodToHost(name: string): Method {
  return METHODS.includes(name) ? { tag: name.toLowerCase() } : { tag: "other", val: name };
}

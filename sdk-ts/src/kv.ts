// A client of key-value stores. A store is an actor; its class is `examples/kv`, in Rust.
//
// Keys are text of 1 to 512 bytes, values bytes, at most 1 MiB. A store is one actor, so it does one thing
// at a time and holds 1 GiB: spread keys over several by name.
//
// Each time a value is set, it gets a version: a number of the store that is higher than all before it,
// those of deleted keys too.
//
// A call that gets no answer may have been carried out. Setting and deleting with `expect` can be tried
// again: if the first one was, the second is a conflict.
//
// What fails is a `ConflictError`, or an `actors.Failure`: a refusal of the host, no answer, a value too
// large (413), a full store (507). The requests themselves are in `docs/kv-and-queue.md`.

import type { Answer } from "./actors.js";
import { ask, Fields, inMs } from "./client.js";
import { Failure } from "./failure.js";
import { Headers } from "./headers.js";
import { percentEncode } from "./target.js";
import { toJson } from "./response.js";
import { decode } from "./utf8.js";

const EXPECT = "x-wasmkeep-kv-expect";
const TTL = "x-wasmkeep-kv-ttl-ms";
const DURABLE = "x-wasmkeep-kv-durable";
/** When an entry ends, in an answer. */
const EXPIRES = "kv-expires-ms";
const CONFLICT = 412;
const NO_KEY = "there is no such key";

/** What a store has for a key. */
export class Entry {
  /** @internal */
  constructor(
    /** The value. */
    readonly value: Uint8Array,
    /** Its version, for `expect`. */
    readonly version: number,
    /** When its TTL ends, if it has one. */
    readonly expires: Date | undefined,
  ) {}

  /** The value as text. Throws where it is not UTF-8. */
  text(): string {
    const text = decode(this.value);
    if (text === undefined) throw new TypeError("the value is not UTF-8");
    return text;
  }

  /** The value, read as JSON; the type is not checked. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }
}

/** The key is not as expected. Nothing changed. */
export class ConflictError extends Error {
  override readonly name = "ConflictError";
  /** The version it has; none when it is not there. */
  readonly version: number | undefined;

  /** @internal */
  constructor(version: number | undefined) {
    super(`the key is not as expected: ${version === undefined ? "it is not there" : `its version is ${version}`}`);
    this.version = version;
  }
}

/** How to delete a key. */
export interface DeleteOptions {
  /** Only if the key has this version. Left out: whatever it has. */
  expect?: number;
  /** Answers only once it is durable. */
  durable?: boolean;
}

/** How to set a key. */
export interface SetOptions {
  /** Only if the key has this version, or is `"absent"`. Left out: whatever it has. */
  expect?: number | "absent";
  /** How long the key is there, in milliseconds: 1 to 100 years, rounded up. Left out: until it is deleted. */
  ttlMs?: number;
  /** Answers only once it is durable. */
  durable?: boolean;
}

/** A key of a {@link Page}. */
export interface Listed {
  readonly key: string;
  /** The version of its value. */
  readonly version: number;
  /** The value's length in bytes. */
  readonly size: number;
  /** When its TTL ends, if it has one. */
  readonly expires: Date | undefined;
}

/** A part of a store's keys. */
export interface Page {
  readonly keys: Listed[];
  /** What to go on after; none when there are no more. */
  readonly next: string | undefined;
}

/** Which keys to list. */
export interface ListOptions {
  /** The `next` of the page before. */
  after?: string | undefined;
  /** At most so many, 1 to 1,000; 100 unless said. */
  limit?: number;
}

/**
 * A client of one store.
 *
 * ```ts
 * const visits = new kv.Client("kv/visits");
 * const entry = visits.get("total");
 * visits.setJson("total", (entry?.json<number>() ?? 0) + 1, { expect: entry?.version ?? "absent" });
 * ```
 */
export class Client {
  readonly #target: string;

  /** Of the store `class/name`, the name as it is. */
  constructor(target: string) {
    this.#target = target;
  }

  /** What there is for a key. */
  get(key: string): Entry | undefined {
    const answer = unlessAbsent(ask(this.#target, { path: pathOf(key) }));
    if (!answer) return undefined;
    const expires = answer.header(EXPIRES);
    return new Entry(answer.bytes, versionOf(answer), expires === undefined ? undefined : new Date(Number(expires)));
  }

  /** Sets a key to a value, and returns its version. */
  set(key: string, value: string | Uint8Array, options: SetOptions = {}): number {
    const headers = headersOf(options);
    const answer = ask(this.#target, { method: "PUT", path: pathOf(key), headers, body: value });
    return versionOf(unlessConflict(answer).done());
  }

  /** As {@link set}, of a value written as JSON. */
  setJson(key: string, value: unknown, options: SetOptions = {}): number {
    return this.set(key, toJson(value), options);
  }

  /** Deletes a key, and says whether it was there. */
  delete(key: string, options: DeleteOptions = {}): boolean {
    const headers = headersOf(options);
    const answer = ask(this.#target, { method: "DELETE", path: pathOf(key), headers });
    return unlessAbsent(unlessConflict(answer)) !== undefined;
  }

  /**
   * The keys that begin with a text, in the order of their bytes; `""` for all of them. Each page is the
   * store's at one time. A key that is there from the first page to the last is listed once.
   */
  list(prefix: string, { after, limit }: ListOptions = {}): Page {
    let path = `/keys?prefix=${percentEncode(prefix)}`;
    if (limit !== undefined) path += `&limit=${limit}`;
    if (after !== undefined) path += `&after=${percentEncode(after)}`;
    const page = Fields.of(ask(this.#target, { path }).done());
    const keys = page.list("keys").map((listed) => ({
      key: listed.text("key"),
      version: listed.number("version"),
      size: listed.number("size"),
      expires: listed.has("expires_ms") ? new Date(listed.number("expires_ms")) : undefined,
    }));
    return { keys, next: page.has("next") ? page.text("next") : undefined };
  }
}

function pathOf(key: string): string {
  return `/keys/${percentEncode(key)}`;
}

/** @internal */
export function headersOf(options: SetOptions): Headers {
  const headers = new Headers();
  if ("expect" in options) {
    // A version that is missing by mistake must not become a write that expects nothing.
    if (options.expect === undefined) throw new TypeError('`expect` is undefined: say "absent", or leave it out');
    headers.set(EXPECT, options.expect);
  }
  if (options.ttlMs !== undefined) headers.set(TTL, inMs(options.ttlMs));
  if (options.durable) headers.set(DURABLE, "true");
  return headers;
}

/** None for a key that is not there. Another actor's 404 is a failure: it is no store. */
function unlessAbsent(answer: Answer): Answer | undefined {
  try {
    return answer.done();
  } catch (error) {
    if (error instanceof Failure && error.status === 404 && error.words === NO_KEY) return undefined;
    throw error;
  }
}

function unlessConflict(answer: Answer): Answer {
  if (answer.status === CONFLICT && !answer.refusal()) throw new ConflictError(taggedVersion(answer));
  return answer;
}

function versionOf(answer: Answer): number {
  const version = taggedVersion(answer);
  if (version === undefined) throw Failure.unreadable("it has no version: is this a store?");
  return version;
}

function taggedVersion(answer: Answer): number | undefined {
  const digits = /^"?(\d+)"?$/.exec(answer.header("etag") ?? "")?.[1];
  return digits === undefined ? undefined : Number(digits);
}

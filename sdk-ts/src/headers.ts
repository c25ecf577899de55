import { wellFormed } from "./host/engine.js";
import { decode, encode } from "./utf8.js";

/** What a header may be set from: text is sent as UTF-8. */
export type HeaderValue = string | number | Uint8Array;

/** Headers to start with: pairs, or an object. */
export type HeadersInit = Headers | Iterable<readonly [string, HeaderValue]> | Record<string, HeaderValue>;

/**
 * The header fields of a request or a response, in order. Names compare without regard to case.
 */
export class Headers implements Iterable<[string, Uint8Array]> {
  /** Values the host gave are decoded when they are asked for. */
  #fields: [string, Uint8Array | string][] = [];

  constructor(init?: HeadersInit) {
    if (init === undefined) return;
    const pairs = isIterable(init) ? init : Object.entries(init);
    for (const [name, value] of pairs) this.append(name, value);
  }

  /** The first value of a field, if it is there and is text. */
  get(name: string): string | undefined {
    const wanted = name.toLowerCase();
    for (const [have, value] of this.#fields) {
      if (have.toLowerCase() === wanted) return typeof value === "string" ? value : decode(value);
    }
    return undefined;
  }

  /** Every value of a field, as bytes: a header's value need not be text. */
  getAll(name: string): Uint8Array[] {
    const wanted = name.toLowerCase();
    const have = this.#fields.filter(([have]) => have.toLowerCase() === wanted);
    return have.map(([, value]) => asBytes(value));
  }

  /** Whether a field is there. */
  has(name: string): boolean {
    const wanted = name.toLowerCase();
    return this.#fields.some(([have]) => have.toLowerCase() === wanted);
  }

  /** Sets a field, in place of all values it had. */
  set(name: string, value: HeaderValue): void {
    this.delete(name);
    this.append(name, value);
  }

  /** Adds a field beside the values it has already, as `set-cookie` needs it. */
  append(name: string, value: HeaderValue): void {
    this.#fields.push([wellFormed(name), typeof value === "number" ? String(value) : value]);
  }

  /** Removes every value of a field. */
  delete(name: string): void {
    const wanted = name.toLowerCase();
    this.#fields = this.#fields.filter(([have]) => have.toLowerCase() !== wanted);
  }

  /** Every field with its value, as bytes. */
  *[Symbol.iterator](): Iterator<[string, Uint8Array]> {
    for (const [name, value] of this.#fields) yield [name, asBytes(value)];
  }
}

function asBytes(value: Uint8Array | string): Uint8Array {
  return typeof value === "string" ? encode(value) : value;
}

function isIterable(init: object): init is Iterable<readonly [string, HeaderValue]> {
  return Symbol.iterator in init;
}

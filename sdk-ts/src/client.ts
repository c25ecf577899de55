// What the clients of ready-made classes have in common.

import { type Answer, call, CallError, type CallOptions } from "./actors.js";
import { Failure } from "./failure.js";

/** The answer, of whatever status. What is none is a {@link Failure} too. */
export function ask(target: string, options: CallOptions): Answer {
  try {
    return call(target, options);
  } catch (error) {
    throw error instanceof CallError ? Failure.notAnswered(error) : error;
  }
}

/**
 * As a header or a parameter has it. What is finer than a millisecond is rounded up: a time of its own is
 * never none.
 */
export function inMs(ms: number): string {
  const whole = Math.ceil(ms);
  if (!Number.isSafeInteger(whole) || whole < 0) throw new RangeError(`${ms} is no time in milliseconds`);
  return String(whole);
}

/** An object of an answer, field by field: an actor of another kind may answer with anything. */
export class Fields {
  readonly #object: Record<string, unknown>;

  constructor(value: unknown) {
    if (typeof value !== "object" || value === null) throw Failure.unreadable("an object was expected");
    this.#object = value as Record<string, unknown>;
  }

  static of(answer: Answer): Fields {
    let value: unknown;
    try {
      value = answer.json();
    } catch (error) {
      throw Failure.unreadable(error instanceof Error ? error.message : String(error));
    }
    return new Fields(value);
  }

  number(name: string): number {
    const value = this.#object[name];
    return typeof value === "number" ? value : this.#misfit(name, "number");
  }

  text(name: string): string {
    const value = this.#object[name];
    return typeof value === "string" ? value : this.#misfit(name, "text");
  }

  list(name: string): Fields[] {
    const value = this.#object[name];
    return Array.isArray(value) ? value.map((one) => new Fields(one)) : this.#misfit(name, "list");
  }

  /** Whether it is there, and not null. */
  has(name: string): boolean {
    return this.#object[name] !== undefined && this.#object[name] !== null;
  }

  #misfit(name: string, kind: string): never {
    throw Failure.unreadable(`its \`${name}\` is no ${kind}`);
  }
}

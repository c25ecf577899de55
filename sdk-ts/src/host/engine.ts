// What the two engines do differently at the border to the host.

declare const WASMKEEP_ENGINE: "small" | "web" | undefined;

/** Replaced by a constant in a build; in tests under Node it is the small one. */
export const ENGINE: "small" | "web" =
  typeof WASMKEEP_ENGINE === "undefined" ? "small" : (WASMKEEP_ENGINE as "small" | "web");

/** An unsigned 64-bit number to the host. */
export function u64(n: number): number | bigint {
  return ENGINE === "web" ? BigInt(n) : n;
}

/**
 * The error a host function gives, as the contract has it. What else was thrown, such as a mistake
 * of this SDK, is thrown on.
 */
export function payloadOf<E>(error: unknown): E {
  // Not of one class in all engines.
  if (typeof error === "object" && error !== null && "payload" in error) return error.payload as E;
  throw error;
}

/** Texts cross the border as UTF-8, which has no place for half a surrogate pair: U+FFFD stands in. */
export function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed();
}

const DISPOSE: symbol = Symbol.dispose ?? Symbol.for("dispose");

/** Gives a handle back to the host now, not when the collector comes by. */
export function drop(handle: object | undefined): void {
  (handle as Record<symbol, (() => void) | undefined> | undefined)?.[DISPOSE]?.();
}

const PARENT = Symbol("parent");

/**
 * Has a handle keep the one it came from. The host takes no parent back before its child, and what is
 * forgotten together is given back by the engine, the holder first.
 */
export function childOf<C extends object>(parent: object, child: C): C {
  return Object.assign(child, { [PARENT]: parent });
}

/** The handle this one came from. */
export function parentOf(child: object | undefined): object | undefined {
  return (child as { [PARENT]?: object } | undefined)?.[PARENT];
}

/** Gives a handle back, and then the one it came from. */
export function dropWithParent(child: object | undefined): void {
  const parent = parentOf(child);
  drop(child);
  drop(parent);
}

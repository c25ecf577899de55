// Lines for the log, and stacks that name the author's files.

import { mapped } from "./stack.js";

/** The error with its stack and its causes. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return typeof error === "string" ? error : shown(error);
  const head = error.message === "" ? error.name : `${error.name}: ${error.message}`;
  // Some engines start the stack with the message, some do not.
  const stack = (error.stack ?? "").startsWith(head) ? (error.stack ?? "").slice(head.length) : (error.stack ?? "");
  const lines = mapped(stack).split("\n").filter((line) => line.trim() !== "");
  const text = [head, ...lines].join("\n");
  return error.cause === undefined ? text : `${text}\ncaused by: ${describe(error.cause)}`;
}

/** A value as `console` writes it. */
export function shown(value: unknown): string {
  if (typeof value === "string") return value;
  if (value instanceof Error) return describe(value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "object" || value === null) return String(value);
  try {
    const plain = (_: string, inner: unknown) =>
      typeof inner === "bigint" ? `${inner}n` : inner instanceof Error ? describe(inner) : inner;
    return JSON.stringify(value, plain) ?? String(value);
  } catch {
    return String(value);
  }
}

import type { HostValue } from "host:storage";

import { wellFormed } from "../host/engine.js";
import { fitsI64, integerFromHost, integerToHost } from "../host/integers.js";

/**
 * One SQL value, as SQLite stores it. An integer is a number where a number is exact (up to 2^53),
 * else a bigint.
 */
export type SqlValue = null | number | bigint | string | Uint8Array;

/**
 * What can stand for a `?`. A number without a fraction is an integer up to 2^53, other numbers are
 * floats; {@link real} makes a float of any. Booleans are 0 and 1. A bigint outside 64 bits is
 * refused.
 */
export type SqlParam = SqlValue | boolean | Real;

/** A number that is stored as a float, whatever it is. Made by {@link real}. */
export class Real {
  /** @internal */
  constructor(readonly value: number) {}
}

/** This number as a float: SQLite tells `1.0` from `1` where the column has no type. */
export function real(value: number): Real {
  return new Real(value);
}

/** @internal */
export function valuesToHost(params: readonly SqlParam[]): HostValue[] {
  return params.map(valueToHost);
}

function valueToHost(value: SqlParam, at: number): HostValue {
  switch (typeof value) {
    case "number":
      return Number.isSafeInteger(value)
        ? { tag: "integer", val: integerToHost(value) }
        : { tag: "real", val: value };
    case "string":
      return { tag: "text", val: wellFormed(value) };
    case "boolean":
      return { tag: "integer", val: integerToHost(value ? 1 : 0) };
    case "bigint":
      if (!fitsI64(value)) throw wrong(at, `${value} does not fit SQLite's 64-bit integers`);
      return { tag: "integer", val: integerToHost(value) };
  }
  if (value === null) return { tag: "null" };
  if (value instanceof Uint8Array) return { tag: "blob", val: value };
  if (value instanceof Real) return { tag: "real", val: value.value };
  if (value === undefined) throw wrong(at, "it is undefined: use null for NULL");
  if ((value as unknown) instanceof Date) {
    throw wrong(at, "it is a Date: store its getTime() or toISOString()");
  }
  throw wrong(at, `a ${typeof value} is none of SQL's values: null, number, bigint, string, Uint8Array`);
}

function wrong(at: number, how: string): TypeError {
  return new TypeError(`SQL parameter ${at + 1}: ${how}`);
}

/** @internal */
export function valueFromHost(value: HostValue): SqlValue {
  switch (value.tag) {
    case "null":
      return null;
    case "integer":
      return integerFromHost(value.val);
    default:
      return value.val;
  }
}

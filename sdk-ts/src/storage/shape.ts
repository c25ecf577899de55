// Rows into typed values: what is asked for is said as data, checked, and gives the type.

import { SqlError } from "./error.js";
import type { SqlValue } from "./value.js";

interface Kinds {
  /** A number without a fraction, up to 2^53. */
  integer: number;
  /** All of SQLite's 64 bits. */
  bigint: bigint;
  /** A float; an integer reads as one. */
  real: number;
  text: string;
  blob: Uint8Array;
  /** 0 or 1. */
  boolean: boolean;
  any: SqlValue;
}

/** What a column holds; with `?` it may be NULL: `integer`, `text?`. */
export type Column = keyof Kinds | `${keyof Kinds}?`;

/** What a row is read into: an object by column names, a tuple in order, or the one column's value. */
export type Shape = Column | readonly Column[] | { readonly [name: string]: Column };

type ValueOf<C extends Column> = C extends `${infer K extends keyof Kinds}?`
  ? Kinds[K] | null
  : C extends keyof Kinds
    ? Kinds[C]
    : never;

/** The type of a row read into a shape. */
export type RowOf<S extends Shape> = S extends Column
  ? ValueOf<S>
  : S extends readonly Column[]
    ? { -readonly [At in keyof S]: ValueOf<S[At] & Column> }
    : S extends { readonly [name: string]: Column }
      ? { -readonly [Name in keyof S]: ValueOf<S[Name]> }
      : never;

/** Reads rows; the columns are looked up once. */
export function reader<S extends Shape>(shape: S, columns: readonly string[]): (row: SqlValue[], at: number) => RowOf<S> {
  if (typeof shape === "string") {
    const column = shape as Column;
    if (columns.length !== 1) {
      throw misfit(1, `${column} takes one column, the query gives ${columns.length}: use a tuple or an object`);
    }
    return (row, at) => read(column, row[0] as SqlValue, columns[0] as string, at) as RowOf<S>;
  }
  if (Array.isArray(shape)) {
    const kinds = shape as readonly Column[];
    if (columns.length !== kinds.length) {
      throw misfit(1, `a tuple of ${kinds.length} for ${columns.length} columns`);
    }
    return (row, at) => kinds.map((kind, i) => read(kind, row[i] as SqlValue, columns[i] as string, at)) as RowOf<S>;
  }
  const places = Object.entries(shape as Record<string, Column>).map(([name, kind]) => {
    const place = columns.indexOf(name);
    if (place < 0) throw misfit(1, `the query gives no column \`${name}\``);
    if (columns.indexOf(name, place + 1) >= 0) {
      throw misfit(1, `the query gives column \`${name}\` twice: rename one with AS`);
    }
    return [name, kind, place] as const;
  });
  return (row, at) => {
    const object: Record<string, unknown> = {};
    for (const [name, kind, place] of places) object[name] = read(kind, row[place] as SqlValue, name, at);
    return object as RowOf<S>;
  };
}

function read(column: Column, value: SqlValue, name: string, at: number): unknown {
  const nullable = column.endsWith("?");
  const kind = (nullable ? column.slice(0, -1) : column) as keyof Kinds;
  if (value === null && (nullable || kind === "any")) return null;
  switch (kind) {
    case "integer":
      if (typeof value === "number" && Number.isInteger(value)) return value;
      if (typeof value === "bigint") throw misfit(at, `column \`${name}\`: an integer over 2^53: read it as bigint`);
      break;
    case "bigint":
      if (typeof value === "bigint") return value;
      if (typeof value === "number" && Number.isInteger(value)) return BigInt(value);
      break;
    case "real":
      if (typeof value === "number") return value;
      if (typeof value === "bigint") return Number(value);
      break;
    case "text":
      if (typeof value === "string") return value;
      break;
    case "blob":
      if (value instanceof Uint8Array) return value;
      break;
    case "boolean":
      if (value === 0 || value === 1) return value === 1;
      break;
    case "any":
      return value;
    default:
      throw new TypeError(`${JSON.stringify(column)} is no kind of column: integer, bigint, real, text, blob, boolean, any`);
  }
  throw misfit(at, `column \`${name}\`: expected ${kind}, found ${found(value)}`);
}

/** What it is, without the data: this goes to a log. */
function found(value: SqlValue): string {
  if (value === null) return "NULL";
  if (typeof value === "string") return "text";
  if (typeof value === "bigint") return "an integer";
  if (typeof value === "number") return Number.isInteger(value) ? "an integer" : "a float";
  return "a blob";
}

function misfit(row: number, how: string): SqlError {
  return new SqlError("mismatch", `row ${row}: ${how}`);
}

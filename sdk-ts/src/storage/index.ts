// The actor's own SQLite database. Nobody else reads or writes it.

import host from "host:storage";

import { sqlErrorOf } from "../host/sql_error.js";
import { wellFormed } from "../host/engine.js";
import { isThenable } from "../promise.js";
import { SqlError } from "./error.js";
import { reader, type RowOf, type Shape } from "./shape.js";
import { type SqlParam, type SqlValue, valueFromHost, valuesToHost } from "./value.js";

export {
  type FunctionMigration,
  migrate,
  MigrateError,
  type MigrateErrorCase,
  type Migration,
  type SqlMigration,
} from "./migrate.js";
export { SqlError, type ConstraintKind, type SqlErrorCase } from "./error.js";
export type { Column, RowOf, Shape } from "./shape.js";
export { Real, real, type SqlParam, type SqlValue } from "./value.js";

/** What a query gives: the columns' names, and the values of each row in their order. */
export interface Rows {
  columns: string[];
  rows: SqlValue[][];
}

const NONE: readonly SqlParam[] = [];

/**
 * Runs a statement and returns how many rows it inserted, updated or deleted. Committed locally when
 * it returns, and made durable soon after. Throws an {@link SqlError}, as all functions here.
 */
export function exec(sql: string, params: readonly SqlParam[] = NONE): number {
  const values = valuesToHost(params);
  return Number(called(() => host.exec(wellFormed(sql), values)));
}

/**
 * As {@link exec}, and nothing leaves the actor after it before the write is durable: on disk, or in a
 * cluster's bucket. While other events wait for the actor it may return earlier, and the answer waits
 * instead.
 * Inside a transaction only `COMMIT` can be: see {@link transactionDurable}.
 */
export function execDurable(sql: string, params: readonly SqlParam[] = NONE): number {
  const values = valuesToHost(params);
  return Number(called(() => host.execDurable(wellFormed(sql), values)));
}

/**
 * Runs a statement and returns its rows as they are. It takes reads, and writes with a `RETURNING`
 * clause. All rows of one query together hold at most 16 MiB: page through more with `LIMIT`.
 */
export function query(sql: string, params: readonly SqlParam[] = NONE): Rows {
  const values = valuesToHost(params);
  const { columns, rows } = called(() => host.query(wellFormed(sql), values));
  return { columns, rows: rows.map((row) => row.map(valueFromHost)) };
}

/**
 * Runs a query and reads each row into a shape: an object by column names, a tuple in order, or the
 * value of a single column. A row that does not fit is an {@link SqlError} of case `mismatch`, which
 * names row and column.
 *
 * `storage.queryAs({ id: "integer", title: "text", price: "real?" }, "SELECT * FROM items")`
 */
export function queryAs<const S extends Shape>(shape: S, sql: string, params: readonly SqlParam[] = NONE): RowOf<S>[] {
  const { columns, rows } = query(sql, params);
  if (rows.length === 0) return [];
  const read = reader(shape, columns);
  return rows.map((row, at) => read(row, at + 1));
}

/**
 * Runs a query that gives a row whatever happens (`SELECT count(*) …`, `INSERT … RETURNING id`) and
 * reads the first. No row at all is an {@link SqlError} of case `mismatch`.
 */
export function queryOne<const S extends Shape>(shape: S, sql: string, params: readonly SqlParam[] = NONE): RowOf<S> {
  const { columns, rows } = query(sql, params);
  if (!rows[0]) throw new SqlError("mismatch", "the query gave no row, one was expected");
  return reader(shape, columns)(rows[0], 1);
}

/** Runs a query that may find nothing and reads the first row, if there is one. */
export function queryOptional<const S extends Shape>(
  shape: S,
  sql: string,
  params: readonly SqlParam[] = NONE,
): RowOf<S> | undefined {
  const { columns, rows } = query(sql, params);
  return rows[0] && reader(shape, columns)(rows[0], 1);
}

/**
 * Runs the function in a transaction: all its statements take effect, or none. When it throws, the
 * transaction is rolled back and the error thrown on. A transaction cannot be opened inside another.
 */
export function transaction<T>(work: () => T): T {
  return runTransaction(work, exec);
}

/** As {@link transaction}, and returns only once all of it is durable. */
export function transactionDurable<T>(work: () => T): T {
  return runTransaction(work, execDurable);
}

function runTransaction<T>(work: () => T, commit: (sql: string) => number): T {
  const end = (value: unknown) => {
    commit("COMMIT");
    return value;
  };
  const undo = (error: unknown): never => {
    try {
      exec("ROLLBACK");
    } catch {
      // SQLite may have rolled back already; what is still open ends with the event.
    }
    throw error;
  };
  exec("BEGIN IMMEDIATE");
  let value: T;
  try {
    value = work();
    if (!isThenable(value)) end(value);
  } catch (error) {
    return undo(error);
  }
  // The promise of an async function is of the same type with and without the end of the transaction.
  return isThenable(value) ? (Promise.resolve(value).then(end).catch(undo) as T) : value;
}

/**
 * Deletes this actor when the event ends: its database and alarm go, and the next event to the
 * address starts a new actor.
 */
export function deleteSelf(): void {
  host.deleteSelf();
}

/**
 * Deletes this actor now, and returns only once that is durable. Later storage calls of the event are
 * an {@link SqlError} of case `not-allowed`, and so is this one inside a transaction.
 */
export function deleteSelfDurable(): void {
  called(() => host.deleteSelfDurable());
}

function called<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw sqlErrorOf(error);
  }
}

// Storage calls as data: see tests/guests/probe/src/sql.rs, which says the forms.

import { type Request, Response, SqlError, storage } from "@wasmkeep/sdk";

type Param = null | number | string | { blob: string } | { zeroblob: number } | { "text-of": number } | { integer: string };

/** What an endless query gives, and whether the next statement of the event still runs. */
export function spin(): Response {
  const endless = `WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)
                   SELECT count(*) FROM c`;
  const spin = queried(() => storage.query(endless));
  const later = queried(() => storage.query("SELECT 1"));
  return Response.json({ spin, later });
}

/** Leaves a transaction open that added the row `?x=` to `t`. */
export function leaveOpen(request: Request): void {
  storage.exec("CREATE TABLE IF NOT EXISTS t (x)");
  storage.exec("BEGIN");
  storage.exec("INSERT INTO t VALUES (?)", [request.query("x") ?? "left open"]);
}

export function changed(work: () => number): object {
  return orFailed(() => ({ changed: work() }));
}

export function queried(work: () => storage.Rows): object {
  return orFailed(() => {
    const { columns, rows } = work();
    return { columns, rows: rows.map((row) => row.map(shown)) };
  });
}

export function orFailed(work: () => object): object {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof SqlError)) throw error;
    const { case: which, kind, words } = error;
    return { error: which === "constraint" ? { case: which, kind, message: words } : { case: which, message: words } };
  }
}

export function value(param: Param): storage.SqlParam {
  if (param === null || typeof param !== "object") return param;
  if ("blob" in param) return bytesOf(param.blob);
  if ("zeroblob" in param) return new Uint8Array(param.zeroblob);
  if ("integer" in param) return BigInt(param.integer);
  return "x".repeat(param["text-of"]);
}

function shown(value: storage.SqlValue): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) {
    return { real: value > 0 ? "inf" : "-inf" };
  }
  if (typeof value === "string" && value.length > 1000) return { "text-len": value.length };
  if (!(value instanceof Uint8Array)) return value;
  if (value.length > 64) return { "blob-len": value.length };
  return { blob: Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("") };
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

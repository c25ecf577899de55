// Timers whose keys say what their handlers do: see tests/guests/sdk/src/timing.rs. Handlers of keys that begin
// with `again` and `twice` are async here, the others are not.

import { ActorError, type Request, Response, sleep, storage, type Timer, timers } from "@wasmkeep/sdk";

import { trap } from "../probe/work.js";

export function set(request: Request, key: string): Response {
  const wait = request.queryInteger("in") ?? 0;
  const also = request.query("also");
  const work = () => {
    timers.setAfter(key, wait);
    if (also !== undefined) timers.setAfter(also, wait);
  };
  if (request.query("then") === undefined) {
    work();
  } else {
    storage.transaction(() => {
      work();
      throw ActorError.status(409, "told to fail");
    });
  }
  return Response.json({});
}

export function cancel(key: string): Response {
  return Response.json({ cancelled: timers.cancel(key) });
}

export function list(): Response {
  return Response.json(timers.list().map(({ key, due, attempts }) => [key, due.getTime(), attempts]));
}

export function ran(): Response {
  storage.exec("CREATE TABLE IF NOT EXISTS ran (key, attempt)");
  return Response.json(storage.query("SELECT * FROM ran ORDER BY rowid").rows);
}

export function runDue(): void | Promise<void> {
  storage.exec("CREATE TABLE IF NOT EXISTS ran (key, attempt)");
  return timers.runDue(handle);
}

function handle(timer: Timer): void | Promise<void> {
  const { key, attempts } = timer;
  console.log(`timer ${key} begins, attempt ${attempts}`);
  storage.exec("INSERT INTO ran VALUES (?, ?)", [key, attempts]);
  const first = attempts === 1;
  const [kind, other] = key.split("-", 2) as [string, string | undefined];
  switch (kind) {
    case "fail":
      throw ActorError.internal("told to fail");
    case "twice":
      return failOnce(first);
    case "trap":
      return trap();
    case "slow":
      if (first) sleep(25_000);
      return;
    case "again":
      return again(key);
    case "cancel":
      timers.cancel(other ?? "");
  }
}

async function failOnce(first: boolean): Promise<void> {
  await nothing();
  if (first) throw ActorError.internal("told to fail once");
}

async function again(key: string): Promise<void> {
  await nothing();
  if (storage.queryOne("integer", "SELECT count(*) FROM ran WHERE key = ?", [key]) < 3) timers.setAfter(key, 0);
}

async function nothing(): Promise<void> {}

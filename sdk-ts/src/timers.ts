// Many timers in place of the one alarm, each with a key.
//
// They are rows of the actor's database, so a timer is set, replaced or cancelled together with the
// transaction that is open. The earliest of them sets the actor's alarm: an actor that has timers leaves
// `alarms` alone, and has them run in its `alarm`. Table and rules are those of the Rust SDK.
//
// At least once: a timer is there until its handler has succeeded. What the handler wrote and the end of
// the timer commit together, so in the database its work is done exactly once; what it did outside, such
// as a call, may be done again after a crash.
//
// Retries: a handler that fails is rolled back and logged, and runs again after 1 s, then 2, 4, and so on
// up to 5 min, without end, until it succeeds or the timer is cancelled or set anew. One that traps, or is
// stopped at a limit, ends its event: the host runs the alarm again a second later, and the timer's own
// wait begins then. Others that are due run meanwhile, those that have not failed first: a failing timer
// holds up the others by no more than its own attempt and that second.
//
// Time is the clock of the node, in milliseconds. What fell due while the server was down runs after its
// start. 32 timers run in one event; if more are due, the alarm fires again at once, and other events have
// their turn in between.

import * as alarms from "./alarms.js";
import { forTheLog } from "./error.js";
import { logLine } from "./host/output.js";
import { isThenable } from "./promise.js";
import { exec, queryAs, queryOne, queryOptional, transaction } from "./storage/index.js";
import { together } from "./storage/together.js";
import { msOf } from "./time.js";
import { encode } from "./utf8.js";

/** Timers that run in one event. */
const DUE_PER_EVENT = 32;
const KEY_BYTES_MAX = 1024;
const RETRY_FIRST_MS = 1000;
const RETRY_MAX_MS = 5 * 60 * 1000;
/** The latest time a `Date` can have. */
const DATE_MAX_MS = 8.64e15;

/**
 * `running` is 1 from before a handler starts until after it has ended: whoever finds it so later knows
 * that the event did not reach its end.
 */
const TABLE = `CREATE TABLE IF NOT EXISTS _sdk_timers (
    key TEXT PRIMARY KEY,
    due INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID`;
const INDEX = "CREATE INDEX IF NOT EXISTS _sdk_timers_due ON _sdk_timers (due)";

/** A timer of this actor. */
export interface Timer {
  /** What it was set with. */
  readonly key: string;
  /** When it is due; for one that has failed, when it is tried again. */
  readonly due: Date;
  /**
   * How often its handler has begun, this time included: 1 for the first attempt. 0 for one that waits
   * for its time.
   */
  readonly attempts: number;
}

/** The Rust SDK may have stored a time that only 64 bits hold. */
const ROW = ["text", "bigint", "integer"] as const;

function timerOf([key, due, attempts]: [string, bigint, number]): Timer {
  return { key, due: new Date(Math.min(Number(due), DATE_MAX_MS)), attempts };
}

/**
 * Sets a timer to a time, in place of the one with this key: a `Date`, or milliseconds since
 * 1970-01-01T00:00Z, rounded down. A time that has passed is due at once. A key has 1 to 1,024 bytes.
 */
export function setAt(key: string, time: Date | number): void {
  const ms = msOf(time);
  const has = encode(key).length;
  if (has === 0 || has > KEY_BYTES_MAX) {
    throw new RangeError(`a timer's key has 1 to ${KEY_BYTES_MAX} bytes, this one ${has}`);
  }
  together(() => {
    makeTable();
    exec(
      `INSERT INTO _sdk_timers (key, due) VALUES (?, ?)
       ON CONFLICT (key) DO UPDATE SET due = excluded.due, attempts = 0, running = 0`,
      [key, ms],
    );
    setAlarm();
  });
}

/** Sets a timer to so many milliseconds from now, in place of the one with this key. */
export function setAfter(key: string, ms: number): void {
  setAt(key, Date.now() + ms);
}

/** Cancels a timer; false when there is none with this key. */
export function cancel(key: string): boolean {
  return together(() => {
    makeTable();
    const cancelled = exec("DELETE FROM _sdk_timers WHERE key = ?", [key]);
    setAlarm();
    return cancelled > 0;
  });
}

/** The timer with this key. */
export function get(key: string): Timer | undefined {
  makeTable();
  const row = queryOptional(ROW, "SELECT key, due, attempts FROM _sdk_timers WHERE key = ?", [key]);
  return row && timerOf(row);
}

/** All timers, the earliest first. Those whose time has come and that have not run yet are among them. */
export function list(): Timer[] {
  makeTable();
  return queryAs(ROW, "SELECT key, due, attempts FROM _sdk_timers ORDER BY due, key").map(timerOf);
}

/**
 * Runs the handler for each timer that is due, and sets the alarm to the earliest of those that are
 * left: the whole of an actor's `alarm`, or a part of it. Where the handler is `async`, return or await
 * what this gives.
 *
 * Each handler runs in a transaction, so it opens none itself; when it throws, all it wrote is rolled
 * back. It may set its own timer again, and cancel or set others. The error is logged and not thrown on:
 * the others run, and the retry is set. What this throws means that storage failed; the host then tries
 * the alarm again.
 */
export function runDue<R extends void | Promise<void>>(handler: (timer: Timer) => R): R;
export function runDue(handler: Handler): void | Promise<void> {
  makeTable();
  putOffThoseCutOff();
  const now = Date.now();
  // Those that have not failed go first: one that takes its event with it is then the last.
  const keys = queryAs("text", "SELECT key FROM _sdk_timers WHERE due <= ? ORDER BY attempts, due, key LIMIT ?", [
    now,
    DUE_PER_EVENT,
  ]);
  return runEach(keys, now, handler);
}

type Handler = (timer: Timer) => void | Promise<void>;

function runEach(keys: readonly string[], now: number, handler: Handler): void | Promise<void> {
  for (const [at, key] of keys.entries()) {
    // Committed before the handler starts, so that a trap leaves it behind. None when a handler before
    // it has cancelled it or set it to later.
    const begun = queryOptional(
      ROW,
      `UPDATE _sdk_timers SET running = 1, attempts = attempts + 1
       WHERE key = ? AND due <= ? RETURNING key, due, attempts`,
      [key, now],
    );
    if (!begun) continue;
    const ran = run(timerOf(begun), handler);
    if (isThenable(ran)) return ran.then(() => runEach(keys.slice(at + 1), now, handler));
  }
  setAlarm();
}

function run(timer: Timer, handler: Handler): void | Promise<void> {
  const { key, attempts } = timer;
  // One that the handler has set again is not running.
  const end = () => void exec("DELETE FROM _sdk_timers WHERE key = ? AND running = 1", [key]);
  const failed = (error: unknown) => {
    const wait = putOff(key, attempts);
    const again = `again in ${wait / 1000}s`;
    logLine(`timer ${JSON.stringify(key)}, attempt ${attempts}, ${again}: ${forTheLog(error)}`);
  };
  try {
    const ran = transaction((): void | Promise<void> => {
      const handled = handler(timer);
      return isThenable(handled) ? handled.then(end) : end();
    });
    if (isThenable(ran)) return ran.then(undefined, failed);
  } catch (error) {
    failed(error);
  }
}

/** The event of these was stopped, by their own fault or by the server's end. */
function putOffThoseCutOff(): void {
  const cutOff = queryAs(["text", "integer"], "SELECT key, attempts FROM _sdk_timers WHERE running = 1");
  for (const [key, attempts] of cutOff) putOff(key, attempts);
}

function putOff(key: string, attempts: number): number {
  const wait = retryAfterMs(attempts);
  exec("UPDATE _sdk_timers SET running = 0, due = ? WHERE key = ?", [Date.now() + wait, key]);
  return wait;
}

/**
 * As the host does with alarms: 1 s, doubled each time, up to 5 min.
 * @internal
 */
export function retryAfterMs(attempts: number): number {
  return Math.min(RETRY_FIRST_MS * 2 ** Math.max(0, attempts - 1), RETRY_MAX_MS);
}

function setAlarm(): void {
  const earliest = queryOne("bigint?", "SELECT min(due) FROM _sdk_timers");
  if (earliest === null) alarms.clear();
  else alarms.setAt(Math.min(Number(earliest), Number.MAX_SAFE_INTEGER));
}

function makeTable(): void {
  exec(TABLE);
  exec(INDEX);
}

// The actor's one alarm: when it is due, `alarm` runs. It survives sleep, restarts and moves, and
// fires at least once. It lives in the actor's database, so it is set or kept together with the
// transaction that is open. For several, see `timers`.

import host from "host:alarms";

import { u64 } from "./host/engine.js";
import { sqlErrorOf } from "./host/sql_error.js";
import { msOf } from "./time.js";

/**
 * Sets the alarm to a time, replacing the one that was pending: a `Date`, or milliseconds since
 * 1970-01-01T00:00Z, rounded down. A time that has passed is due at once.
 */
export function setAt(time: Date | number): void {
  const ms = msOf(time);
  called(() => host.setAlarm(u64(ms)));
}

/** Sets the alarm to so many milliseconds from now, replacing the one that was pending. */
export function setAfter(ms: number): void {
  setAt(Date.now() + ms);
}

/** When the pending alarm is due. While a failed `alarm` is being retried: the time of the next attempt. */
export function get(): Date | undefined {
  const ms = getMs();
  return ms === undefined ? undefined : new Date(ms);
}

/** As {@link get}, in milliseconds since 1970-01-01T00:00Z. */
export function getMs(): number | undefined {
  const at = called(() => host.getAlarm());
  return at === null || at === undefined ? undefined : Number(at);
}

/** Removes the pending alarm, if there is one. */
export function clear(): void {
  called(() => host.clearAlarm());
}

/** Inside `alarm`: 1 for the first attempt, 2 for the first retry, and so on. Elsewhere 0. */
export function attempt(): number {
  return host.attempt();
}

function called<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw sqlErrorOf(error);
  }
}

import clock from "host:clock";

import { drop, u64 } from "./host/engine.js";

/** Waits so many milliseconds. The event goes on, and the actor's other events wait. */
export function sleep(ms: number): void {
  const elapsed = clock.subscribeDuration(u64(Math.max(0, Math.round(ms * 1_000_000))));
  elapsed.block();
  drop(elapsed);
}

/** Milliseconds since 1970-01-01T00:00Z, rounded down. A time before that is 0. */
export function msOf(time: Date | number): number {
  const ms = Math.max(0, Math.floor(Number(time)));
  if (!Number.isSafeInteger(ms)) {
    throw new RangeError(`${String(time)} is no time of an alarm: a Date, or milliseconds since 1970`);
  }
  return ms;
}

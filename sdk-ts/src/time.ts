import clock from "host:clock";

import { drop, u64 } from "./host/engine.js";

/** Waits so many milliseconds. The event goes on, and the actor's other events wait. */
export function sleep(ms: number): void {
  const elapsed = clock.subscribeDuration(u64(Math.max(0, Math.round(ms * 1_000_000))));
  elapsed.block();
  drop(elapsed);
}

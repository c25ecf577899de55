// Configuration and secrets the operator gave to this class.

import host from "host:env";

import { wellFormed } from "./host/engine.js";

/**
 * The value of a name, or none. Names are letters, digits and `_`. From a file given with
 * `wasmkeep serve --env CLASS=FILE`, a deploy or a secret.
 */
export function get(name: string): string | undefined {
  return host.get(wellFormed(name)) ?? undefined;
}

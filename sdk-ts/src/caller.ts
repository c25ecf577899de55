import { Address } from "./actors.js";
import { percentDecode } from "./target.js";

export const CALLER = "x-wasmkeep-caller";
/** What stands in the place of a class in the front's address. No class is called so. */
const FRONT_CLASS = "_front";

/** Who sent a request: a client, the node's front, or another actor. The host says it. */
export type Caller = "outside" | "front" | Address;

export function callerOf(text: string | undefined): Caller {
  const first = text?.indexOf("/") ?? -1;
  const second = first < 0 ? -1 : (text?.indexOf("/", first + 1) ?? -1);
  if (text === undefined || second < 0) return "outside";
  const actorClass = text.slice(first + 1, second);
  if (actorClass === FRONT_CLASS) return "front";
  return new Address(text.slice(0, first), actorClass, percentDecode(text.slice(second + 1)));
}

// What the SDK does not let an actor do: return without an answer.

import http from "host:http";

import { Response } from "@wasmkeep/sdk";

const outparam = (http as { ResponseOutparam: { set(to: unknown, response: unknown): void } }).ResponseOutparam;
const set = outparam.set;
let silent = false;

outparam.set = (to, response) => {
  if (!silent) return set(to, response);
  silent = false;
};

export function nothing(): Response {
  silent = true;
  return Response.empty();
}

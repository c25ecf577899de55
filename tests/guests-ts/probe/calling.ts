// Calls of other actors, in the forms the probe and the front give them.

import { actors, env as values, type Headers, type Request, Response } from "@wasmkeep/sdk";

const LONG_BODY = 64 * 1024;
const utf8 = new TextDecoder();

export function env(request: Request): Response {
  return Response.json(values.get(request.query("name") ?? "") ?? null);
}

export function call(request: Request): Response {
  const headers = { "x-probe": "call", "x-wasmkeep-evil": "set by the guest", "x-wasmkeep-kv-durable": "1" };
  const options = { method: request.method, path: pathToCall(request), headers, body: request.bytes() };
  return Response.json(called(request.query("target") ?? "", options));
}

export function callMany(request: Request): Response {
  const path = pathToCall(request);
  const targets = request.queryPairs().filter(([name]) => name === "target");
  return Response.json(actors.callMany(targets.map(([, target]) => ({ target, path }))).map(answered));
}

export function pathToCall(request: Request): string {
  return request.query("path") ?? "/hello";
}

/** What came of one call. */
export function called(target: string, options: actors.CallOptions): object {
  try {
    return answered(actors.call(target, options));
  } catch (error) {
    if (error instanceof actors.CallError) return answered(error);
    throw error;
  }
}

/** `{status, headers, body}`, of a long body `{…, body_len}` instead, or `{error}`. */
export function answered(answer: actors.Answer | actors.CallError): object {
  if (answer instanceof actors.CallError) {
    return answer.case === "failed" ? { error: "failed", message: answer.how } : { error: answer.case };
  }
  const { status, headers, bytes } = answer;
  if (bytes.length > LONG_BODY) return { status, body_len: bytes.length };
  return { status, headers: headersJson(headers), body: utf8.decode(bytes) };
}

/** `[[name, value]…]` */
export function headersJson(headers: Headers): [string, string][] {
  return Array.from(headers, ([name, value]) => [name, utf8.decode(value)]);
}

/** A caller as the Rust guests write it. */
export function callerText(caller: string | { tenant: string; class: string; name: string }): string {
  if (typeof caller === "string") return caller === "front" ? "Front" : "Outside";
  const quoted = (text: string) => JSON.stringify(text);
  return `Actor(Address { tenant: ${quoted(caller.tenant)}, class: ${quoted(caller.class)}, name: ${quoted(caller.name)} })`;
}

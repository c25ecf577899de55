// CPU, time, memory and stack.

import actors from "host:actors";

import { type Request, Response, sleep } from "@wasmkeep/sdk";

const MIB = 1024 * 1024;
const PAGE = 4096;

/** A loop of so many rounds, without a host call. */
export function burn(request: Request): Response {
  const rounds = request.queryInteger("iters") ?? 1_000_000;
  let state = 1;
  for (let at = 0; at < rounds; at++) state = (state ^ (state << 13) ^ (state >>> 7)) | 0;
  return Response.json({ iters: rounds, state });
}

export function spin(): never {
  for (let rounds = 0; ; ) rounds = (rounds + 1) | 0;
}

export function wait(request: Request): Response {
  const ms = request.queryInteger("ms") ?? 100;
  sleep(ms);
  return Response.text(String(ms));
}

/** When it began and ended to wait, so that events of many actors can be laid side by side. */
export function span(request: Request): Response {
  const began = Date.now();
  wait(request);
  return Response.json({ began, ended: Date.now() });
}

/** Takes memory MiB by MiB, and says how many it got: it ends where the host refuses more. */
export function grow(request: Request, kept: Uint8Array[]): Response {
  const asked = request.queryInteger("mib") ?? 1;
  const touch = request.query("touch") !== "0";
  const blocks: Uint8Array[] = [];
  try {
    while (blocks.length < asked) {
      const block = new Uint8Array(MIB);
      if (touch) for (let at = 0; at < MIB; at += PAGE) block[at] = 1;
      blocks.push(block);
    }
  } catch {
    // The host gives no more.
  }
  const got = blocks.length;
  if (request.query("keep") !== undefined) kept.push(...blocks);
  return Response.json({ asked, got, kept: kept.length });
}

export function recurse(depth: number): number {
  return recurse(depth + 1) + depth;
}

/** JavaScript has no instruction that traps. The engine does, of a host call with a wrong value. */
export function trap(): never {
  (actors as { call(target: unknown, request: unknown): void }).call(1n, 1n);
  throw new Error("the engine takes anything for a text");
}

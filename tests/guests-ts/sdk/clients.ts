// The clients of stores and queues, driven by JSON: see tests/guests/sdk/src/clients.rs, which says the forms.

import { ActorError, actors, kv, queue, type Request, Response } from "@wasmkeep/sdk";

type KvOp =
  | { op: "get"; key: string }
  | { op: "set"; key: string; value: string; expect?: number | "absent"; ttl_ms?: number; durable?: boolean }
  | { op: "delete"; key: string; expect?: number }
  | { op: "list"; prefix: string; after?: string | null; limit: number }
  | { op: "add"; key: string };

/** A message as the tests have it from `receive`. */
interface Message {
  id: number;
  receipt: string;
}

type QueueOp =
  | { op: "send"; body: string; delay_ms?: number }
  | { op: "receive"; max: number; lease_ms: number }
  | { op: "ack"; message: Message }
  | { op: "nack"; message: Message; delay_ms: number }
  | { op: "extend"; message: Message; lease_ms: number }
  | { op: "counts" }
  | { op: "dead"; after: number }
  | { op: "requeue"; id: number }
  | { op: "delete-dead"; id: number };

export function runKv(request: Request, target: string): Response {
  const op = request.json<KvOp>();
  return answered(() => kvOp(new kv.Client(target), op));
}

export function runQueue(request: Request, target: string): Response {
  const op = request.json<QueueOp>();
  return answered(() => queueOp(new queue.Client(target), op));
}

/** `{ok}`, `{conflict}` with the version there is, `{ended}`, or `{failed, retry}`. */
function answered(work: () => unknown): Response {
  try {
    return Response.json({ ok: work() ?? null });
  } catch (error) {
    if (error instanceof kv.ConflictError) return Response.json({ conflict: error.version ?? null });
    if (error instanceof queue.LeaseEndedError) return Response.json({ ended: error.id });
    if (!(error instanceof actors.Failure)) throw error;
    return Response.json({ failed: error.message, retry: error.mayBeRetried() });
  }
}

function kvOp(store: kv.Client, op: KvOp): unknown {
  switch (op.op) {
    case "get": {
      const entry = store.get(op.key);
      return entry && { value: entry.text(), version: entry.version, expires: entry.expires !== undefined };
    }
    case "set": {
      const options: kv.SetOptions = { durable: op.durable ?? false };
      if (op.expect !== undefined) options.expect = op.expect;
      if (op.ttl_ms !== undefined) options.ttlMs = op.ttl_ms;
      return store.set(op.key, op.value, options);
    }
    case "delete":
      return store.delete(op.key, op.expect === undefined ? {} : { expect: op.expect });
    case "list": {
      const { keys, next } = store.list(op.prefix, { after: op.after ?? undefined, limit: op.limit });
      const listed = keys.map(({ key, version, size, expires }) => {
        return { key, version, size, expires_ms: expires?.getTime() ?? null };
      });
      return { keys: listed, next: next ?? null };
    }
    case "add":
      return add(store, op.key);
    default:
      throw ActorError.badRequest("no such operation");
  }
}

/** Adds one with compare-and-set until it succeeds. */
function add(store: kv.Client, key: string): number {
  for (;;) {
    const entry = store.get(key);
    const total = (entry?.json<number>() ?? 0) + 1;
    try {
      store.setJson(key, total, { expect: entry?.version ?? "absent" });
      return total;
    } catch (error) {
      if (!(error instanceof kv.ConflictError)) throw error;
    }
  }
}

function queueOp(client: queue.Client, op: QueueOp): unknown {
  switch (op.op) {
    case "send":
      return client.send(op.body, op.delay_ms === undefined ? {} : { delayMs: op.delay_ms });
    case "receive":
      return client.receive(op.max, op.lease_ms).map(({ id, body, attempt, sent, receipt }) => {
        return { id, body, attempt, sent_ms: sent.getTime(), receipt };
      });
    case "ack":
      return client.ack(op.message);
    case "nack":
      return client.nack(op.message, op.delay_ms);
    case "extend":
      return client.extend(op.message, op.lease_ms);
    case "counts":
      return client.counts();
    case "dead":
      return client.dead(op.after).map(({ id, body, attempts, sent, died }) => {
        return { id, body, attempts, sent_ms: sent.getTime(), dead_ms: died.getTime() };
      });
    case "requeue":
      return client.requeue(op.id);
    case "delete-dead":
      return client.deleteDead(op.id);
    default:
      throw ActorError.badRequest("no such operation");
  }
}

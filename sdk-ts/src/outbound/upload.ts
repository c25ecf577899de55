import http, {
  type ErrorCode,
  type FutureIncomingResponse,
  type IncomingResponse,
  type OutgoingBody,
} from "host:http";
import poll, { type Pollable } from "host:io/poll";
import type { InputStream, OutputStream } from "host:io/streams";

import { childOf, drop, dropWithParent, parentOf, u64 } from "../host/engine.js";

const READ_BYTES = 64 * 1024;

/** A body on its way out, sent as the server takes it. */
export class Upload {
  #bytes: Uint8Array;
  #stream: OutputStream | undefined;

  constructor(bytes: Uint8Array, body: OutgoingBody) {
    this.#bytes = bytes;
    this.#stream = childOf(body, body.write());
  }

  /** Sends what there is room for; true once there is nothing left to do. */
  goOn(): boolean {
    while (this.#stream) {
      if (this.#bytes.length === 0) {
        this.#end(true);
        return true;
      }
      try {
        const room = Number(this.#stream.checkWrite());
        if (room === 0) return false;
        this.#stream.write(this.#bytes.subarray(0, room));
        this.#bytes = this.#bytes.subarray(Math.min(room, this.#bytes.length));
      } catch {
        // The server has what it wants: its answer says the rest.
        this.#end(false);
      }
    }
    return true;
  }

  /** Ready when there is room again. */
  subscribe(): Pollable | undefined {
    return this.#stream?.subscribe();
  }

  #end(whole: boolean): void {
    const stream = this.#stream;
    this.#stream = undefined;
    if (!stream || !whole) return dropWithParent(stream);
    const body = parentOf(stream) as OutgoingBody;
    drop(stream);
    try {
      http.OutgoingBody.finish(body, undefined);
    } catch {
      // Its length was declared as it is: only a server that left can be wrong with it.
    }
  }
}

/** A request that was sent and has no answer yet. */
export interface Exchange {
  upload: Upload | undefined;
  answer: FutureIncomingResponse;
}

/** What came of an exchange. */
export interface Outcome {
  response: IncomingResponse | undefined;
  error: ErrorCode;
  upload: Upload | undefined;
}

const NO_ANSWER: ErrorCode = { tag: "internal-error" };

/** Sends what is left of each, and waits until all have an answer. */
export function finishAll(exchanges: readonly Exchange[]): Outcome[] {
  const outcomes: Outcome[] = [];
  let open = exchanges.map((exchange, at) => [at, exchange] as const);
  while (open.length > 0) {
    const waits: Pollable[] = [];
    for (const [, exchange] of open) {
      if (exchange.upload?.goOn()) exchange.upload = undefined;
      waits.push(exchange.answer.subscribe());
      const room = exchange.upload?.subscribe();
      if (room) waits.push(room);
    }
    poll.poll(waits);
    waits.forEach(drop);
    open = open.filter(([at, { answer, upload }]) => {
      const settled = answer.get();
      if (settled === null || settled === undefined) return true;
      const inner = settled.tag === "ok" ? settled.val : undefined;
      const response = inner?.tag === "ok" ? inner.val : undefined;
      const error = inner?.tag === "err" ? inner.val : NO_ANSWER;
      outcomes[at] = { response, error, upload };
      drop(answer);
      return false;
    });
  }
  return outcomes;
}

/** Waits for the next piece of an answer, and sends meanwhile what there is to send. */
export function readBeside(upload: Upload): (stream: InputStream) => Uint8Array {
  let left: Upload | undefined = upload;
  return (stream) => {
    if (left?.goOn()) left = undefined;
    const room = left?.subscribe();
    if (!room) return stream.blockingRead(u64(READ_BYTES));
    const ready = stream.subscribe();
    poll.poll([ready, room]);
    drop(ready);
    drop(room);
    return stream.read(u64(READ_BYTES));
  };
}

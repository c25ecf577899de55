import http, { type IncomingRequest, type IncomingResponse, type OutgoingBody } from "host:http";
import type { InputStream, OutputStream, StreamError } from "host:io/streams";

import { ActorError } from "../error.js";
import { encode } from "../utf8.js";
import { childOf, drop, dropWithParent, payloadOf, u64 } from "./engine.js";

/** What one read asks the host for. */
const READ_BYTES = 64 * 1024;

/**
 * The body of a request, or of an answer from outside, read piece by piece as it arrives:
 * `for (const piece of request.body)`.
 */
export class Body implements Iterable<Uint8Array> {
  #stream: InputStream | undefined;
  #failure: ((error: StreamError) => Error) | undefined;
  #beside: ((stream: InputStream) => Uint8Array) | undefined;

  /** @internal */
  static of(
    from: IncomingRequest | IncomingResponse | undefined,
    failure: (error: StreamError) => Error,
    beside?: (stream: InputStream) => Uint8Array,
  ): Body {
    const body = new Body();
    if (from === undefined) return body;
    try {
      const incoming = from.consume();
      body.#stream = childOf(incoming, incoming.stream());
    } catch {
      // It was taken before: there is nothing to read.
    }
    body.#failure = failure;
    body.#beside = beside;
    return body;
  }

  /** The next piece, as soon as there is one; none at the end. At most 64 KiB. */
  chunk(): Uint8Array | undefined {
    while (this.#stream) {
      try {
        const piece = this.#beside?.(this.#stream) ?? this.#stream.blockingRead(u64(READ_BYTES));
        // A host may wake the reader with nothing to read.
        if (piece.length > 0) return piece;
      } catch (thrown) {
        const error = payloadOf<StreamError>(thrown);
        const failed = error.tag === "closed" ? undefined : this.#failure?.(error);
        this.close();
        if (failed) throw failed;
      }
    }
    return undefined;
  }

  /** All that is left. */
  bytes(): Uint8Array {
    const first = this.chunk();
    if (first === undefined) return new Uint8Array(0);
    const pieces = [first];
    let length = first.length;
    for (const piece of this) {
      pieces.push(piece);
      length += piece.length;
    }
    if (pieces.length === 1) return first;
    const all = new Uint8Array(length);
    let at = 0;
    for (const piece of pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return all;
  }

  /** Reads no further: the host need not keep the rest. */
  close(): void {
    dropWithParent(this.#stream);
    this.#stream = undefined;
    this.#beside = undefined;
  }

  *[Symbol.iterator](): Iterator<Uint8Array> {
    for (let piece = this.chunk(); piece !== undefined; piece = this.chunk()) yield piece;
  }
}

/**
 * Why the body of a client's request could not be read.
 * @internal
 */
export function requestFailure(error: StreamError): Error {
  const io = error.tag === "last-operation-failed" ? error.val : undefined;
  const code = io && http.httpErrorCode(io);
  const words = io?.toDebugString() ?? "it has ended";
  drop(io);
  if (code?.tag === "HTTP-request-body-size") {
    return ActorError.status(413, "the request body is larger than 16 MiB");
  }
  return ActorError.status(400, "the request body could not be read", { cause: words });
}

/** The client, or the server outside, takes no more of a body. Let it end the writing. */
export class ClosedError extends Error {
  override readonly name = "ClosedError";
}

/**
 * Where a streamed body is written. A slow reader makes `write` wait; once it has left, every write
 * throws: let that end the function, nothing is logged for it.
 */
export class BodyWriter {
  #stream: OutputStream;
  #room = 0;
  #left = false;

  /** @internal */
  constructor(body: OutgoingBody) {
    this.#stream = body.write();
  }

  /** @internal */
  get readerLeft(): boolean {
    return this.#left;
  }

  /** Writes text, as UTF-8, or bytes. */
  write(piece: string | Uint8Array): void {
    let rest = typeof piece === "string" ? encode(piece) : piece;
    while (rest.length > 0) {
      const now = rest.length <= this.#room ? rest : rest.subarray(0, this.#waitForRoom());
      this.#try(() => this.#stream.write(now));
      this.#room -= now.length;
      rest = rest.subarray(now.length);
    }
  }

  /** Waits until everything written so far has gone out. */
  flush(): void {
    this.#try(() => this.#stream.blockingFlush());
    this.#room = 0;
  }

  /** @internal */
  close(): void {
    drop(this.#stream);
  }

  #waitForRoom(): number {
    for (;;) {
      this.#room = Number(this.#try(() => this.#stream.checkWrite()));
      if (this.#room > 0) return this.#room;
      const ready = this.#stream.subscribe();
      ready.block();
      drop(ready);
    }
  }

  #try<T>(work: () => T): T {
    if (this.#left) throw new ClosedError("the reader of this body has left");
    try {
      return work();
    } catch (thrown) {
      payloadOf(thrown);
      this.#left = true;
      throw new ClosedError("the reader of this body has left");
    }
  }
}

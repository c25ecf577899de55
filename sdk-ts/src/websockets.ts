// The actor's WebSockets. The host owns them: they stay open while the actor sleeps, and the next
// message wakes it. So nothing about a socket may live in memory alone; what belongs to one, such as
// who it is, goes into its attachment.

import type { HostHeader } from "host:actors";
import host, { type HostMessage } from "host:websockets";

import { jsonOfClient } from "./error.js";
import { type Caller, CALLER, callerOf } from "./caller.js";
import { Headers } from "./headers.js";
import { payloadOf, u64, wellFormed } from "./host/engine.js";
import { Target } from "./request.js";
import { toJson } from "./response.js";
import { decode, encode } from "./utf8.js";

/** A message, to or from a client: text, or bytes. At most 1 MiB. */
export type Message = string | Uint8Array;

/** A value written as JSON: a text message. */
export function jsonMessage(value: unknown): string {
  return toJson(value);
}

/** A message read as JSON, unchecked. Not JSON: an error whose message says why, to be sent back. */
export function parseMessage<T = unknown>(message: Message): T {
  return jsonOfClient("the message", typeof message === "string" ? message : decode(message)) as T;
}

/**
 * The actor's accepted, open sockets. One that is being opened is not among them until `socketOpen`
 * has returned.
 */
export function connections(): Socket[] {
  return Array.from(host.connections(), (id) => new Socket(Number(id)));
}

/**
 * Sends a message to every socket, and says how many took it: the others have just left, or do not
 * keep up.
 */
export function broadcast(message: Message): number {
  let sent = 0;
  for (const socket of connections()) {
    try {
      socket.send(message);
      sent++;
    } catch (error) {
      if (!(error instanceof SocketError)) throw error;
    }
  }
  return sent;
}

/** One WebSocket of this actor. */
export class Socket {
  /** The id: stable for the socket's life, also across sleep, and never used again. */
  readonly id: number;

  /** The socket with an id that was kept, say in a table. One that has ended is `closed` to all. */
  constructor(id: number) {
    this.id = id;
  }

  /** Queues a message for the client. Throws a {@link SocketError}. */
  send(message: Message): void {
    const given: HostMessage =
      typeof message === "string" ? { tag: "text", val: wellFormed(message) } : { tag: "binary", val: message };
    called(() => host.send(u64(this.id), given));
  }

  /** Queues a value as JSON: a text message. */
  sendJson(value: unknown): void {
    this.send(toJson(value));
  }

  /**
   * Closes the socket; `socketClose` follows. 1000 is an ordinary end, 1008 a broken rule, 3000 to
   * 4999 are yours. The reason: at most 123 bytes. Throws a {@link SocketError}.
   */
  close(code = 1000, reason = ""): void {
    if (!Number.isInteger(code) || code < 0 || code > 0xffff) throw new SocketError("invalid-code");
    called(() => host.close(u64(this.id), code, wellFormed(reason)));
  }

  /**
   * The bytes kept with the socket, also across sleep and inside `socketClose`. Empty at first; none
   * for one that is gone.
   */
  attachment(): Uint8Array | undefined {
    return host.attachment(u64(this.id)) ?? undefined;
  }

  /** Replaces the bytes kept with the socket, text as UTF-8: at most 2 KiB. Throws a {@link SocketError}. */
  setAttachment(bytes: Uint8Array | string): void {
    const given = typeof bytes === "string" ? encode(bytes) : bytes;
    called(() => host.setAttachment(u64(this.id), given), "attachment-too-large");
  }
}

/**
 * Why an operation on a socket failed:
 *
 * | case | means |
 * |---|---|
 * | `closed` | no such open socket |
 * | `backpressure` | 256 messages or 4 MiB wait for this client: this one was dropped for it |
 * | `too-large` | the message is larger than 1 MiB |
 * | `invalid-code` | no peer may send this code (below 1000, 1004 to 1006, 1012 to 2999, above 4999) |
 * | `reason-too-long` | the reason is longer than 123 bytes |
 * | `attachment-too-large` | more than 2 KiB: the attachment is as it was |
 */
export type SocketErrorCase = keyof typeof WORDS;

const WORDS = {
  closed: "the socket is not open",
  backpressure: "the client does not keep up: the message was dropped",
  "too-large": "the message is larger than 1 MiB",
  "invalid-code": "no peer may send this close code",
  "reason-too-long": "the reason is longer than 123 bytes",
  "attachment-too-large": "the attachment is larger than 2 KiB",
};

/** Why an operation on a socket failed: see {@link SocketErrorCase}. */
export class SocketError extends Error {
  override readonly name = "SocketError";

  readonly case: SocketErrorCase;

  /** @internal */
  constructor(which: SocketErrorCase) {
    super(WORDS[which]);
    this.case = which;
  }
}

function called(work: () => void, tooLarge: SocketErrorCase = "too-large"): void {
  try {
    work();
  } catch (thrown) {
    const which = payloadOf<SocketErrorCase>(thrown);
    throw new SocketError(which === "too-large" ? tooLarge : which);
  }
}

/** The upgrade a client asked for. */
export class OpenRequest extends Target {
  /** Every header. */
  readonly headers: Headers;

  /** @internal */
  constructor(request: { path: string; headers: HostHeader[] }) {
    super(request.path);
    this.headers = new Headers(request.headers);
  }

  /** The first value of a header, if it is there and is text. */
  header(name: string): string | undefined {
    return this.headers.get(name);
  }

  /**
   * Whether the front handed this socket over, or a client asked at the actor's own path. The host
   * says it, and nobody else can.
   */
  caller(): Caller {
    return callerOf(this.header(CALLER));
  }
}

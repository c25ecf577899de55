// A client of queues. A queue is an actor; its class is `examples/queue`, in Rust.
//
// Messages are text of at most 64 KiB. They are *delayed* until their delay has passed, *ready*, *leased*
// while a consumer has them, and *dead* when their last lease ended without an acknowledgement. A message is
// delivered at least once: what is done for it should bear being done twice.
//
// The queue calls nobody. A consumer that is an actor asks in its `alarm`, and sets it sooner while there is
// more.
//
// What fails is a `LeaseEndedError`, or an `actors.Failure`: a refusal of the host, no answer, a message too
// large (413), a full queue (507). States, leases and promises are in `docs/kv-and-queue.md`.

import type { Answer, CallOptions } from "./actors.js";
import { ask, Fields, inMs } from "./client.js";
import { Failure } from "./failure.js";
import { toJson } from "./response.js";
import { percentEncode } from "./target.js";

const DELAY = "x-wasmkeep-queue-delay-ms";
const LEASE_ENDED = 409;
const NOT_DEAD = "there is no dead message";

/** What a message is acknowledged with. */
export interface Lease {
  /** The message's number in the queue, given in the order of sending. */
  readonly id: number;
  /** Stands for this lease. */
  readonly receipt: string;
}

/** A message, while its lease lasts. */
export class Received implements Lease {
  /** @internal */
  constructor(
    readonly id: number,
    /** What was sent. */
    readonly body: string,
    /** 1 when it is received for the first time. */
    readonly attempt: number,
    /** When it was sent. */
    readonly sent: Date,
    readonly receipt: string,
  ) {}

  /** The body, read as JSON; the type is not checked. */
  json<T = unknown>(): T {
    return JSON.parse(this.body) as T;
  }
}

/** A message whose last lease ended without an acknowledgement. */
export interface Dead {
  /** Its number in the queue. */
  readonly id: number;
  /** What was sent. */
  readonly body: string;
  /** How often it was received. */
  readonly attempts: number;
  /** When it was sent. */
  readonly sent: Date;
  /** When its last lease ended. */
  readonly died: Date;
}

/** How many messages are in which state. */
export interface Counts {
  /** Can be received. */
  readonly ready: number;
  /** Wait for their time. */
  readonly delayed: number;
  /** Are with a consumer. */
  readonly leased: number;
  /** Are not received any more. */
  readonly dead: number;
}

/** The message is not this consumer's any more: its lease has ended. Nothing changed. */
export class LeaseEndedError extends Error {
  override readonly name = "LeaseEndedError";

  /** @internal */
  constructor(
    /** The message. */
    readonly id: number,
  ) {
    super(`the lease of message ${id} has ended`);
  }
}

/** How to send a message. */
export interface SendOptions {
  /** When it can be received, in milliseconds from now: at most 366 days, rounded up. At once unless said. */
  delayMs?: number;
}

/**
 * A client of one queue.
 *
 * ```ts
 * const mails = new queue.Client("queue/mails");
 * mails.send("to ann");
 * for (const mail of mails.receive(10, 60_000)) {
 *   if (deliver(mail.body)) mails.ack(mail);
 *   else mails.nack(mail, 30_000);
 * }
 * ```
 */
export class Client {
  readonly #target: string;

  /** Of the queue `class/name`, the name as it is. */
  constructor(target: string) {
    this.#target = target;
  }

  /**
   * Sends a message, and returns its number once it is durable. Without an answer, it may have been sent;
   * sent again, it is then there twice.
   */
  send(body: string, options: SendOptions = {}): number {
    return Fields.of(this.#post("/messages", { body, headers: delayOf(options.delayMs) }).done()).number("id");
  }

  /** As {@link send}, of a value written as JSON. */
  sendJson(value: unknown, options: SendOptions = {}): number {
    return this.send(toJson(value), options);
  }

  /**
   * Receives what is ready, at most `max` messages (1 to 10) with 256 KiB of text together, for so long:
   * 1 ms to 12 h, rounded up to milliseconds. It does not wait: when none is ready, none is received.
   *
   * Without an answer, they may be leased; they come again when that lease has ended.
   */
  receive(max: number, leaseMs: number): Received[] {
    const answer = this.#post(`/receive?max=${max}&lease-ms=${inMs(leaseMs)}`).done();
    return messagesOf(answer).map((message) => {
      const sent = new Date(message.number("sent_ms"));
      const attempt = message.number("attempt");
      return new Received(message.number("id"), message.text("body"), attempt, sent, message.text("receipt"));
    });
  }

  /** Ends a message for good: what it asked for is done. */
  ack(message: Lease): void {
    this.#ofLease(message, pathOf(message, "ack"));
  }

  /**
   * Gives a message back, to be received again after a delay of at most 366 days; at once unless said.
   * After the last attempt it is dead.
   */
  nack(message: Lease, delayMs = 0): void {
    this.#ofLease(message, pathOf(message, "nack"), { headers: delayOf(delayMs) });
  }

  /** Lets the lease end so long from now, later or sooner than it would: 1 ms to 12 h. */
  extend(message: Lease, leaseMs: number): void {
    this.#ofLease(message, `${pathOf(message, "extend")}&lease-ms=${inMs(leaseMs)}`);
  }

  /** How many messages are in which state. */
  counts(): Counts {
    const counts = Fields.of(ask(this.#target, { path: "/" }).done());
    const of = (state: keyof Counts) => counts.number(state);
    return { ready: of("ready"), delayed: of("delayed"), leased: of("leased"), dead: of("dead") };
  }

  /**
   * Dead messages, in the order of their numbers, those with a number above `after`: at most 10, with
   * 256 KiB of text together. None means that there are no more.
   */
  dead(after = 0): Dead[] {
    return messagesOf(ask(this.#target, { path: `/dead?after=${after}` }).done()).map((message) => ({
      id: message.number("id"),
      body: message.text("body"),
      attempts: message.number("attempts"),
      sent: new Date(message.number("sent_ms")),
      died: new Date(message.number("dead_ms")),
    }));
  }

  /** Makes a dead message ready, as if it had never been received. False when there is no dead one of this number. */
  requeue(id: number): boolean {
    return ifDead(this.#post(`/dead/${id}/requeue`));
  }

  /** Deletes a dead message. False when there is no dead one of this number. */
  deleteDead(id: number): boolean {
    return ifDead(ask(this.#target, { method: "DELETE", path: `/dead/${id}` }));
  }

  #post(path: string, options: CallOptions = {}): Answer {
    return ask(this.#target, { ...options, method: "POST", path });
  }

  #ofLease(message: Lease, path: string, options?: CallOptions): void {
    try {
      this.#post(path, options).done();
    } catch (error) {
      const ended = error instanceof Failure && error.case === "answered" && error.status === LEASE_ENDED;
      throw ended ? new LeaseEndedError(message.id) : error;
    }
  }
}

function pathOf(message: Lease, action: string): string {
  return `/messages/${message.id}/${action}?receipt=${percentEncode(message.receipt)}`;
}

function delayOf(ms: number | undefined): Record<string, string> {
  return ms === undefined ? {} : { [DELAY]: inMs(ms) };
}

function messagesOf(answer: Answer): Fields[] {
  return Fields.of(answer).list("messages");
}

/** Another actor's 404 is a failure: it is no queue. */
function ifDead(answer: Answer): boolean {
  try {
    answer.done();
    return true;
  } catch (error) {
    if (error instanceof Failure && error.status === 404 && error.words?.startsWith(NOT_DEAD)) return false;
    throw error;
  }
}

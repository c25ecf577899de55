// Why another actor did not do what a call asked for.

import type { CallError } from "./actors.js";

/** Whether an event ran whose answer the host made: no code did; it started; the host cannot tell. */
export type Ran = "no" | "yes" | "unknown";

/**
 * An answer that the host made in the callee's place: its queue is full, the node has no room, its code
 * trapped. `docs/errors.md` lists the reasons.
 */
export interface Refusal {
  /** 429 and 503 for what may pass, 4xx for what is wrong with the call, 500 for a fault. */
  readonly status: number;
  /** One word: `queue-full`, `no-capacity`, `trapped`, … */
  readonly reason: string;
  /** Whether the callee's handler ran. */
  readonly ran: Ran;
}

/**
 * | case | means |
 * |---|---|
 * | `not-answered` | there is no answer: `cause` is the `CallError` |
 * | `refused` | the host answered in the callee's place: see `refusal` |
 * | `answered` | the callee answered with an error of its own: see `status` and `words` |
 * | `unreadable` | the answer is not what this kind of call is answered with: most likely it is another kind of actor |
 */
export type FailureCase = "not-answered" | "refused" | "answered" | "unreadable";

interface About {
  status?: number;
  words?: string;
  refusal?: Refusal;
  cause?: unknown;
}

/** Why another actor did not do what a call asked for: see {@link FailureCase}. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly case: FailureCase;
  /** Of `answered` and `refused`: 300 or more. */
  readonly status: number | undefined;
  /** Of `answered`: the text of `{"error": "…"}`, as an `ActorError` answers; else the start of the body. */
  readonly words: string | undefined;
  /** Of `refused`: what the host said. */
  readonly refusal: Refusal | undefined;

  /** @internal */
  constructor(which: FailureCase, message: string, about: About = {}) {
    super(message, about.cause === undefined ? undefined : { cause: about.cause });
    this.case = which;
    this.status = about.status;
    this.words = about.words;
    this.refusal = about.refusal;
  }

  /** @internal */
  static notAnswered(error: CallError): Failure {
    return new Failure("not-answered", error.message, { cause: error });
  }

  /** @internal */
  static refused(refusal: Refusal): Failure {
    const { status, reason } = refusal;
    const message = `the host answered ${status} in place of the called actor: ${reason}`;
    return new Failure("refused", message, { status, refusal });
  }

  /** @internal */
  static answered(status: number, words: string): Failure {
    return new Failure("answered", `the called actor answered ${status}: ${words}`, { status, words });
  }

  /** @internal */
  static unreadable(how: string): Failure {
    return new Failure("unreadable", `the called actor's answer does not fit: ${how}`);
  }

  /**
   * Whether the same call may succeed later, and does no harm: nothing ran, and what stood in its way may
   * pass (429 or 503).
   */
  mayBeRetried(): boolean {
    return this.refusal?.ran === "no" && (this.refusal.status === 429 || this.refusal.status === 503);
  }
}

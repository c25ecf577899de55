import { describe } from "./log.js";
import { SqlError } from "./storage/error.js";

/**
 * A failed event: the status and the text a client gets, and what goes to the log instead.
 *
 * Thrown in `request` it becomes a response with the body `{"error": "…"}`:
 *
 * | error | status | the client reads |
 * |---|---|---|
 * | an `ActorError` | its own | its message |
 * | an `SqlError` of case `constraint` | 409 | SQLite's words |
 * | an `SqlError` of case `quota-exceeded` | 507 | which limit |
 * | anything else that is thrown | 500 | `internal error` |
 *
 * The text of a 500 goes to the log (standard error), so that a client never sees your queries.
 */
export class ActorError extends Error {
  override readonly name = "ActorError";

  private constructor(
    /** The status a client gets. */
    readonly statusCode: number,
    /** The text a client gets. */
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** An answer with this status, whose text the client reads: `ActorError.status(409, "taken")`. */
  static status(status: number, message: string, options?: ErrorOptions): ActorError {
    return new ActorError(status, message, options);
  }

  /** 400: the request is wrong, and the text says how. */
  static badRequest(message: string): ActorError {
    return new ActorError(400, message);
  }

  /** 404: there is no such thing, and the text says what. */
  static notFound(message: string): ActorError {
    return new ActorError(404, message);
  }

  /** 500: the client reads `internal error`, the log reads the cause. */
  static internal(cause: unknown): ActorError {
    return new ActorError(500, "internal error", { cause });
  }

  /** What a client is answered when this was thrown: see the table of {@link ActorError}. */
  static from(error: unknown): ActorError {
    if (error instanceof ActorError) return error;
    if (error instanceof SqlError) {
      if (error.case === "constraint") return ActorError.status(409, error.message, { cause: error });
      if (error.case === "quota-exceeded") return ActorError.status(507, error.words, { cause: error });
    }
    return ActorError.internal(error);
  }
}

/** All that is known of what was thrown, for the log. */
export function forTheLog(error: unknown): string {
  if (error instanceof ActorError && error.cause !== undefined) return describe(error.cause);
  return error instanceof ActorError ? error.message : describe(error);
}

/** Reads what a client sent. What is not JSON: an error that answers 400 and says why. */
export function jsonOfClient(what: string, text: string | undefined): unknown {
  if (text === undefined) throw ActorError.badRequest(`${what} is not JSON: it is not UTF-8`);
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw ActorError.badRequest(`${what} is not JSON: ${why}`);
  }
}

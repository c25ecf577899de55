import { ActorError } from "./error.js";
import type { Request } from "./request.js";
import type { Response } from "./response.js";
import type { Message, OpenRequest, Socket } from "./websockets.js";

/**
 * An actor: one object for each instance, handling one event at a time. Export a class of it:
 * `export default class Counter extends Actor { … }`.
 *
 * The object is the actor's **memory**. It is made when the first event finds the actor asleep, and
 * lost when it sleeps again, fails, moves or is deployed: keep there what can be computed anew. What
 * must last goes into `storage`.
 *
 * A handler fails its event by throwing. The host then rolls back a transaction that is still open;
 * what was committed before stays, and outside a transaction each statement commits by itself.
 * Statements that belong together go into `storage.transaction`.
 *
 * A handler may be `async`. The event lasts until its promise is settled, and the actor's other
 * events wait.
 */
export abstract class Actor {
  /**
   * Runs once for a new actor, and again after each deploy, before any other handler: the place to
   * create and migrate tables. It does **not** run when the actor wakes from sleep. While it fails, so
   * does every event, and the next one tries it again.
   */
  init(): void | Promise<void> {}

  /** Answers an HTTP request, from a client or from another actor. */
  abstract request(request: Request): Response | Promise<Response>;

  /**
   * The alarm is due. After an error it runs again, in 1 s at first and up to 5 min later, so what it
   * does should bear being done twice.
   */
  alarm(): void | Promise<void> {
    throw ActorError.internal("an alarm was due, but this actor has no `alarm` handler");
  }

  /**
   * A client asks for a WebSocket. An error refuses it; its text is the reason the client reads.
   * Without this handler, every WebSocket is refused.
   */
  socketOpen(_socket: Socket, _request: OpenRequest): void | Promise<void> {
    throw ActorError.status(404, "this actor takes no WebSockets");
  }

  /** A message from a client. */
  socketMessage(_socket: Socket, _message: Message): void | Promise<void> {}

  /**
   * A WebSocket has ended. Its attachment is still there; nothing can be sent any more. The code is
   * the client's, 1005 if it gave none, 1006 if the connection was lost.
   */
  socketClose(_socket: Socket, _code: number, _reason: string): void | Promise<void> {}
}

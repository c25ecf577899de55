// A chat room: examples/chat/room in TypeScript. Its messages lie in its database; who is there is kept
// with the sockets themselves, so the room can sleep while everybody stays connected.

import { Actor, ActorError, type Request, Response, storage, websockets } from "@wasmkeep/sdk";

const NAME_CHARS_MAX = 30;
const TEXT_CHARS_MAX = 2000;
/** What somebody who comes in sees of the past, at most. */
const SHOWN_MAX = 100;
/** What a room keeps. */
const KEPT_MAX = 10_000;

const SAID = { id: "integer", at: "integer", who: "text", text: "text" } as const;

export default class Room extends Actor {
  override init(): void {
    storage.exec(
      `CREATE TABLE IF NOT EXISTS messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
        who TEXT NOT NULL,
        text TEXT NOT NULL
      ) STRICT`,
    );
  }

  override request(request: Request): Response | Promise<Response> {
    return request.route({
      "GET /messages": () => Response.json(since(request.queryInteger("after") ?? 0)),
      "GET /people": () => Response.json(people()),
    });
  }

  /** `?name=` says who comes, `?after=` the last message they have seen. */
  override socketOpen(socket: websockets.Socket, request: websockets.OpenRequest): void {
    const who = checkedName(request.query("name") ?? "");
    socket.setAttachment(who);
    const everybody = [...people(), who].sort();
    tellAll({ type: "joined", who, people: everybody });
    const messages = since(Number.parseInt(request.query("after") ?? "0", 10) || 0);
    socket.sendJson({ type: "welcome", people: everybody, messages });
  }

  override socketMessage(socket: websockets.Socket, message: websockets.Message): void {
    let text: string;
    try {
      text = checkedText(websockets.parseMessage(message));
    } catch (error) {
      if (!(error instanceof ActorError)) throw error;
      return socket.sendJson({ type: "refused", why: error.message });
    }
    tellAll({ type: "message", ...keep(nameOf(socket), text) });
  }

  override socketClose(socket: websockets.Socket): void {
    tellAll({ type: "left", who: nameOf(socket), people: people() });
  }
}

function keep(who: string, text: string): storage.RowOf<typeof SAID> {
  return storage.transaction(() => {
    const insert = "INSERT INTO messages (who, text) VALUES (?, ?) RETURNING id, at, who, text";
    const said = storage.queryOne(SAID, insert, [who, text]);
    storage.exec("DELETE FROM messages WHERE id <= ?", [said.id - KEPT_MAX]);
    return said;
  });
}

/** The latest messages after one, the oldest first. */
function since(after: number): storage.RowOf<typeof SAID>[] {
  const sql = `SELECT id, at, who, text FROM (
      SELECT * FROM messages WHERE id > ? ORDER BY id DESC LIMIT ?
    ) ORDER BY id`;
  return storage.queryAs(SAID, sql, [after, SHOWN_MAX]);
}

/** Who is there: one name for each open socket. */
function people(): string[] {
  return websockets.connections().map(nameOf).sort();
}

function nameOf(socket: websockets.Socket): string {
  return new TextDecoder().decode(socket.attachment());
}

function tellAll(news: object): void {
  websockets.broadcast(websockets.jsonMessage(news));
}

function checkedName(name: string): string {
  const words = name.split(/\s+/).filter((word) => word !== "").join(" ");
  if (words === "") throw ActorError.badRequest("say who you are: ?name=");
  if ([...words].length > NAME_CHARS_MAX) {
    throw ActorError.badRequest(`a name has at most ${NAME_CHARS_MAX} characters`);
  }
  return words;
}

function checkedText(message: unknown): string {
  const { text, ...more } = (message ?? {}) as { text?: unknown };
  if (typeof text !== "string" || Object.keys(more).length > 0) {
    throw ActorError.badRequest('the message does not fit: send {"text": "…"}');
  }
  const trimmed = text.trim();
  if (trimmed === "") throw ActorError.badRequest("there is nothing in this message");
  if ([...trimmed].length > TEXT_CHARS_MAX) {
    throw ActorError.badRequest(`a message has at most ${TEXT_CHARS_MAX} characters`);
  }
  return trimmed;
}

// A counter for each name: examples/counter in TypeScript.

import { Actor, ActorError, actors, type Request, Response, storage } from "@wasmkeep/sdk";

const HISTORY_ROWS_DEFAULT = 20;
const HISTORY_ROWS_MAX = 1000;

const CHANGE = { at: "text", amount: "integer", total: "integer" } as const;

export default class Counter extends Actor {
  /** The memory of one instance: it starts anew each time the actor wakes. */
  private visitsSinceWaking = 0;

  override init(): void {
    storage.exec(
      `CREATE TABLE IF NOT EXISTS changes (
        id INTEGER PRIMARY KEY,
        at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
        amount INTEGER NOT NULL,
        total INTEGER NOT NULL
      ) STRICT`,
    );
  }

  override request(request: Request): Response | Promise<Response> {
    return request.route({
      "GET /": () => this.visit(),
      "POST /add": () => {
        const { amount, total } = record(request.queryInteger("n") ?? 1);
        return Response.json({ added: amount, total });
      },
      "GET /history": () => history(request.queryInteger("limit") ?? HISTORY_ROWS_DEFAULT),
      "* /*": () => {
        throw ActorError.notFound("try GET /, POST /add?n=5 or GET /history?limit=20");
      },
    });
  }

  private visit(): Response {
    const { total } = record(1);
    this.visitsSinceWaking += 1;
    const { class: actorClass, name } = actors.self();
    return Response.text(
      `Hello from ${actorClass}/${name}: visit ${total}\nSince I woke: ${this.visitsSinceWaking}\n`,
    );
  }
}

function history(limit: number): Response {
  const sql = "SELECT at, amount, total FROM changes ORDER BY id DESC LIMIT ?";
  return Response.json(storage.queryAs(CHANGE, sql, [Math.max(0, Math.min(limit, HISTORY_ROWS_MAX))]));
}

/** Adds a row that knows the total so far: nothing has to add up the table. */
function record(amount: number): storage.RowOf<typeof CHANGE> {
  return storage.queryOne(
    CHANGE,
    `INSERT INTO changes (amount, total)
     VALUES (?1, ?1 + coalesce((SELECT total FROM changes ORDER BY id DESC LIMIT 1), 0))
     RETURNING at, amount, total`,
    [amount],
  );
}

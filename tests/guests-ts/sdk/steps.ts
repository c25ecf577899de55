// Steps of a schema by their names: see tests/guests/sdk/src/steps.rs. Those with the same name are the same
// step in both languages.

import { ActorError, Response, storage } from "@wasmkeep/sdk";

import { trap } from "../probe/work.js";

export function migrate(names: string): Response {
  const steps = names.split(",").filter((name) => name !== "").map(step);
  try {
    storage.migrate(steps);
  } catch (error) {
    if (!(error instanceof storage.MigrateError)) throw error;
    return Response.json({ failed: error.message });
  }
  return Response.json({});
}

function step(name: string): storage.Migration {
  switch (name) {
    case "create":
      return { sql: ["CREATE TABLE items (title TEXT NOT NULL)", "INSERT INTO items VALUES ('two words')"] };
    case "words":
      return "ALTER TABLE items ADD COLUMN words INTEGER";
    case "fill":
      return { name: "fill", run: fill };
    case "rename":
      return { sql: "ALTER TABLE items RENAME COLUMN title TO name", breaking: true };
    case "price":
      return "ALTER TABLE items ADD COLUMN price REAL";
    case "half":
      return { sql: ["CREATE TABLE half (a)", "INSERT INTO nowhere VALUES (1)"] };
    case "trap":
      return {
        name: "trap",
        run: () => {
          storage.exec("CREATE TABLE trapped (a)");
          trap();
        },
      };
    default:
      throw ActorError.badRequest(`no step ${JSON.stringify(name)}`);
  }
}

function fill(): void {
  for (const [row, title] of storage.queryAs(["integer", "text"], "SELECT rowid, title FROM items")) {
    const words = title.split(" ").length;
    storage.exec("UPDATE items SET words = ? WHERE rowid = ?", [words, row]);
  }
}

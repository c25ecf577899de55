// Steps of a schema: each runs once on a database, whatever language the code is in.

import { ActorError } from "../error.js";
import { isThenable } from "../promise.js";
import { encode } from "../utf8.js";
import { exec, queryAs, transaction } from "./index.js";

/** Beside the actor's own tables, and the same in each language. `step` is a fingerprint of what ran. */
const TABLE = `CREATE TABLE IF NOT EXISTS _sdk_migrations (
    version INTEGER PRIMARY KEY,
    step INTEGER NOT NULL,
    breaking INTEGER NOT NULL,
    at INTEGER NOT NULL DEFAULT (unixepoch())
) STRICT`;

interface Marked {
  /**
   * Code from before this step cannot work with what it leaves: a column renamed, a meaning changed.
   * Such code then refuses the database instead of misreading it.
   */
  breaking?: boolean;
}

/** SQL: one statement, or several, which take effect together. */
export interface SqlMigration extends Marked {
  sql: string | readonly string[];
}

/**
 * A function, where SQL alone will not do. It runs inside the step's transaction, so it opens none
 * itself, and it is not `async`. The name stands for it: keep the name even if the function is mended.
 */
export interface FunctionMigration extends Marked {
  name: string;
  run: () => void;
}

/** One step of {@link migrate}. A plain string is one statement. */
export type Migration = string | SqlMigration | FunctionMigration;

/**
 * Why {@link migrate} did not bring the database to what the code expects:
 *
 * | case | means |
 * |---|---|
 * | `too-new` | newer code ran a breaking step, and this is older code: deploy newer code again. Nothing was changed |
 * | `changed` | a step that has run here is another one in this code: put it back, append a new one. Nothing was changed |
 * | `gap` | the table of versions was changed by somebody else |
 * | `failed` | a step failed, and was rolled back. Those before it stay; the next event tries it again |
 */
export type MigrateErrorCase = "too-new" | "changed" | "gap" | "failed";

/** Why {@link migrate} failed. */
export class MigrateError extends Error {
  override readonly name = "MigrateError";
  /** What can be done about it. */
  readonly case: MigrateErrorCase;
  /** Which step, counted from 1: of `too-new` the first breaking one that this code lacks, of `gap` the missing one. */
  readonly step: number;

  /** @internal */
  constructor(which: MigrateErrorCase, step: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.case = which;
    this.step = step;
  }
}

/**
 * Brings the database to what the code expects: runs the steps it has not had, each in a transaction
 * of its own. Call it in `init`, which runs after each deploy. Throws a {@link MigrateError}.
 *
 * ```ts
 * storage.migrate([
 *   "CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT NOT NULL)",
 *   { sql: ["ALTER TABLE items ADD COLUMN words INTEGER", "CREATE INDEX items_by_words ON items (words)"] },
 *   { name: "count the words", run: countWords },
 * ]);
 * ```
 *
 * **Append only.** A step is known by its place and its text (white space aside). One that has run
 * somewhere is never changed, moved or removed: that is `changed`.
 *
 * **Back to older code.** A database that is newer than the code goes on working with it: the steps it
 * lacks added things, and older code does not look at them. Mark a step that older code would misread as
 * `breaking`: then older code fails with `too-new` and touches nothing. After a way back, new code
 * appends behind *all* steps that have ever run.
 *
 * **A failure** rolls its step back; the steps before it stay, and the next event goes on there. So a
 * long migration is best several steps: each has the limits of an event to itself if need be.
 *
 * What ran is in the table `_sdk_migrations`, a row for each step. The Rust SDK reads and writes the
 * same: an actor can be written anew in the other language, with the same steps.
 */
export function migrate(steps: readonly Migration[]): void {
  exec(TABLE);
  const had = queryAs(
    { version: "integer", step: "bigint", breaking: "boolean" },
    "SELECT version, step, breaking FROM _sdk_migrations ORDER BY version",
  );
  const expected = steps.map(fingerprint);
  for (let at = stepsDone(had, expected); at < steps.length; at++) {
    const step = steps[at] as Migration;
    const breaking = typeof step !== "string" && step.breaking === true;
    try {
      transaction(() => {
        run(step);
        const row = [at + 1, expected[at] as bigint, breaking];
        exec("INSERT INTO _sdk_migrations (version, step, breaking) VALUES (?, ?, ?)", row);
      });
    } catch (error) {
      throw new MigrateError("failed", at + 1, `step ${at + 1} failed: ${wordsOf(error)}`, { cause: error });
    }
  }
}

function run(step: Migration): void {
  if (typeof step !== "string" && "run" in step) {
    // What an async function does after its first `await` would be outside of the transaction.
    if (isThenable(step.run())) throw new TypeError(`the function ${JSON.stringify(step.name)} is async`);
    return;
  }
  for (const statement of statementsOf(step)) exec(statement);
}

function statementsOf(step: string | SqlMigration): readonly string[] {
  const sql = typeof step === "string" ? step : step.sql;
  return typeof sql === "string" ? [sql] : sql;
}

function wordsOf(error: unknown): string {
  const meant = error instanceof ActorError && error.cause !== undefined ? error.cause : error;
  return meant instanceof Error ? meant.message : String(meant);
}

/** Unicode's white space. The `\s` of a regular expression is not quite that. */
const WHITE_SPACE = /[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;
const WORD = 0x1_0000_0000;

/**
 * Two steps with the same one are the same step. White space does not count.
 *
 * FNV-1a of 64 bits, as the Rust SDK has it, in two words of 32: an interpreter is slow with bigints.
 * @internal
 */
export function fingerprint(step: Migration): bigint {
  const texts = typeof step !== "string" && "run" in step ? [step.name] : statementsOf(step);
  let high = 0xcbf29ce4;
  let low = 0x84222325;
  for (const text of texts) {
    const words = text.split(WHITE_SPACE).filter((word) => word !== "");
    for (const byte of encode(words.map((word) => `${word} `).join("") + ";")) {
      low = (low ^ byte) >>> 0;
      // Times 2^40 + 0x1b3.
      const product = low * 0x1b3;
      high = (high * 0x1b3 + Math.floor(product / WORD) + ((low << 8) >>> 0)) % WORD;
      low = product % WORD;
    }
  }
  return BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low));
}

/** What a database has had. */
interface Had {
  version: number;
  step: bigint;
  /** Whether older code must not touch it. */
  breaking: boolean;
}

/**
 * How many of the expected steps a database has had, if the code may work with it.
 * @internal
 */
export function stepsDone(had: readonly Had[], expected: readonly bigint[]): number {
  for (const [at, { version, step }] of had.entries()) {
    if (version !== at + 1) {
      throw new MigrateError("gap", at + 1, `_sdk_migrations has no version ${at + 1}, but a later one`);
    }
    if (at < expected.length && expected[at] !== step) {
      const how = `step ${version} is not the one that ran on this database: put it back, append a new one`;
      throw new MigrateError("changed", version, how);
    }
  }
  const unknown = had.slice(expected.length).find(({ breaking }) => breaking);
  if (unknown) {
    const { version: step } = unknown;
    const how =
      `the database is at version ${had.length}, this code knows ${expected.length}, and step ${step} is marked ` +
      "as breaking: deploy code that has the step";
    throw new MigrateError("too-new", step, how);
  }
  return Math.min(had.length, expected.length);
}

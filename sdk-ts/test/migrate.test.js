import assert from "node:assert/strict";
import { test } from "node:test";

/** What was run; a statement with `nowhere` fails. */
let ran = [];
globalThis.wasmkeepHost = {
  "host:storage": {
    exec(sql) {
      ran.push(sql.split(" ").slice(0, 3).join(" "));
      if (sql.includes("nowhere")) throw { payload: { tag: "invalid", val: "no such table: nowhere" } };
      return 0;
    },
    query: () => ({ columns: ["version", "step", "breaking"], rows: [] }),
  },
};

const { load } = await import("./sdk.js");

const { fingerprint, migrate, stepsDone } = await load("storage/migrate");
const { ActorError } = await load("error");
const { retryAfterMs } = await load("timers");

test("what a database has had decides what runs", () => {
  const had = (...rows) => rows.map(([step, breaking], at) => ({ version: at + 1, step: BigInt(step), breaking: breaking ?? false }));
  const done = (rows, expected) => stepsDone(rows, expected.map(BigInt));
  assert.equal(done([], [7, 8]), 0);
  assert.equal(done(had([7]), [7, 8]), 1);
  assert.equal(done(had([7], [8, true]), [7, 8]), 2);
  // Newer than the code: older code goes on, unless a step it lacks forbids it.
  assert.equal(done(had([7, true], [8]), [7]), 1);
  assert.equal(done([], []), 0);
  const refused = [
    [had([7], [8], [9, true]), [7], "too-new", 3],
    // After a way back, another second step in place of the one that ran.
    [had([7], [8]), [7, 9, 10], "changed", 2],
    [had([7]), [8], "changed", 1],
    [[{ version: 2, step: 8n, breaking: false }], [7, 8], "gap", 1],
  ];
  for (const [rows, expected, which, step] of refused) {
    assert.throws(() => done(rows, expected), { name: "MigrateError", case: which, step });
  }
  assert.throws(() => done(had([7], [8, true], [9]), [7]), {
    message:
      "the database is at version 3, this code knows 1, and step 2 is marked as breaking: deploy code that has the step",
  });
});

test("a step is known by its text and not by its white space", () => {
  const table = fingerprint("CREATE TABLE t (a, b)");
  assert.equal(fingerprint({ sql: " CREATE  TABLE t\n    (a, b)\u0085", breaking: true }), table);
  assert.notEqual(fingerprint("CREATE TABLE t (a, bb)"), table);
  assert.notEqual(fingerprint("CREATE TABLE t (a,\ufeff b)"), table, "it is no white space");
  assert.notEqual(fingerprint({ sql: ["a", "b"] }), fingerprint("a b"));
  assert.notEqual(fingerprint({ sql: ["a", "b"] }), fingerprint({ sql: ["b", "a"] }));
  assert.equal(fingerprint({ name: "fill", run: () => {} }), fingerprint("fill"));
});

test("the same step in Rust has the same fingerprint", () => {
  // `sdk-rust/src/storage/migrate.rs` has these numbers too.
  assert.equal(fingerprint("CREATE TABLE t (a, b)"), -4576431964475159892n);
  assert.equal(fingerprint({ sql: ["SELECT 'é\u00a0日本'", "x"] }), -7820729092208476899n);
});

test("each step is a transaction, and one that fails says which and how", () => {
  const failure = (step) => {
    ran = [];
    try {
      migrate(["CREATE TABLE a (b)", step]);
    } catch (error) {
      return error;
    }
    return undefined;
  };
  const first = ["CREATE TABLE IF", "BEGIN IMMEDIATE", "CREATE TABLE a", "INSERT INTO _sdk_migrations", "COMMIT"];
  assert.equal(failure({ name: "nothing", run: () => {} }), undefined);
  assert.deepEqual(ran, [...first, "BEGIN IMMEDIATE", "INSERT INTO _sdk_migrations", "COMMIT"]);
  const table = [
    ["DELETE FROM nowhere", "step 2 failed: invalid SQL: no such table: nowhere"],
    [{ name: "own", run: () => { throw ActorError.internal("told to fail"); } }, "step 2 failed: told to fail"],
    [{ name: "late", run: async () => {} }, 'step 2 failed: the function "late" is async'],
  ];
  for (const [step, message] of table) {
    const error = failure(step);
    assert.deepEqual([error.case, error.step, error.message], ["failed", 2, message]);
    assert.deepEqual(ran.slice(0, first.length), first);
    assert.equal(ran.at(-1), "ROLLBACK");
    assert.equal(ran.filter((sql) => sql === "COMMIT").length, 1);
  }
});

test("retries of a timer double from a second to five minutes", () => {
  const seconds = Array.from({ length: 11 }, (_, at) => retryAfterMs(at + 1) / 1000);
  assert.deepEqual(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
  assert.equal(retryAfterMs(2 ** 31), 300_000);
  assert.equal(retryAfterMs(0), 1000);
});

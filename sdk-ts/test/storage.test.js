import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./sdk.js";

const { integerFromHost, integerToHost } = await load("host/integers");
const { real, valuesToHost } = await load("storage/value");
const { reader } = await load("storage/shape");
const { SqlError } = await load("storage/error");
const { ActorError } = await load("error");

test("every integer of 64 bits goes to the host and comes back exactly", () => {
  const edges = [0n, 1n, 2n ** 31n, 2n ** 32n, 2n ** 52n, 2n ** 53n, 2n ** 62n, 2n ** 63n - 1n];
  for (const edge of edges) {
    for (const n of [edge - 1n, edge, edge + 1n, -edge, -edge - 1n]) {
      if (n < -(2n ** 63n) || n >= 2n ** 63n) continue;
      const [low, high] = integerToHost(n);
      const words = new DataView(new ArrayBuffer(8));
      words.setInt32(0, low, true);
      words.setInt32(4, high, true);
      assert.equal(words.getBigInt64(0, true), n, "it lies in memory as one integer of 64 bits");
      const back = integerFromHost([low, high]);
      assert.equal(BigInt(back), n);
      assert.equal(typeof back, Number.isSafeInteger(Number(n)) ? "number" : "bigint", String(n));
      if (typeof back === "number") assert.deepEqual(integerToHost(back), [low, high]);
    }
  }
});

test("what is no SQL value is refused with its place", () => {
  const refused = (value) => {
    try {
      valuesToHost([1, value]);
    } catch (error) {
      return error.message;
    }
    return undefined;
  };
  assert.equal(refused(undefined), "SQL parameter 2: it is undefined: use null for NULL");
  assert.match(refused(new Date()), /a Date: store its getTime/);
  assert.match(refused(2n ** 63n), /does not fit SQLite's 64-bit integers/);
  assert.match(refused({}), /none of SQL's values/);
  assert.equal(refused(-(2n ** 63n)), undefined);
});

test("numbers are integers where they are exact", () => {
  const tags = valuesToHost([1, -0, 2 ** 53, 1.5, Number.NaN, true, real(1), null, "\ud800"]);
  assert.deepEqual(
    tags.map((value) => value.tag),
    ["integer", "integer", "real", "real", "real", "integer", "real", "null", "text"],
  );
  assert.equal(tags[8].val, "\ufffd");
});

test("rows are read into shapes", () => {
  const columns = ["price", "unused", "title", "id"];
  const read = reader({ id: "integer", title: "text", price: "real?" }, columns);
  assert.deepEqual(read([null, 1, "milk", 7], 1), { id: 7, title: "milk", price: null });
  assert.deepEqual(reader(["integer", "any"], ["a", "b"])([1, 2n ** 60n], 1), [1, 2n ** 60n]);
  assert.equal(reader("boolean", ["a"])([1], 1), true);
  assert.equal(reader("bigint", ["a"])([3], 1), 3n);
});

test("a misfit names row and column and keeps the data out", () => {
  const misfit = (shape, columns, row) => {
    try {
      reader(shape, columns)(row, 2);
    } catch (error) {
      assert.ok(error instanceof SqlError && error.case === "mismatch", String(error));
      return error.message;
    }
    return undefined;
  };
  assert.equal(misfit("integer", ["v"], ["secret"]), "row 2: column `v`: expected integer, found text");
  assert.equal(misfit("text", ["v"], [null]), "row 2: column `v`: expected text, found NULL");
  assert.equal(misfit("integer", ["v"], [1.5]), "row 2: column `v`: expected integer, found a float");
  assert.match(misfit("integer", ["v"], [2n ** 60n]), /over 2\^53: read it as bigint/);
  assert.match(misfit("boolean", ["v"], [2]), /expected boolean, found an integer/);
  assert.match(misfit("integer", ["a", "b"], [1, 2]), /takes one column, the query gives 2/);
  assert.match(misfit(["integer"], ["a", "b"], [1, 2]), /a tuple of 1 for 2 columns/);
  assert.match(misfit({ id: "integer" }, ["a"], [1]), /gives no column `id`/);
  assert.match(misfit({ a: "integer" }, ["a", "a"], [1, 1]), /column `a` twice/);
  assert.throws(() => reader("int", ["a"])([1], 1), /no kind of column/);
});

test("errors of SQL answer as they do in Rust", () => {
  const answered = (error) => [ActorError.from(error).statusCode, ActorError.from(error).message];
  assert.deepEqual(answered(new SqlError("constraint", "UNIQUE constraint failed: a.b", "unique")), [
    409,
    "UNIQUE constraint failed: a.b",
  ]);
  assert.deepEqual(answered(new SqlError("quota-exceeded", "database size")), [507, "database size"]);
  for (const which of ["invalid", "not-allowed", "internal", "mismatch"]) {
    assert.deepEqual(answered(new SqlError(which, "secret")), [500, "internal error"]);
  }
  assert.deepEqual(answered(new Error("secret")), [500, "internal error"]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./sdk.js";

const { awaitNow, JobPromise, runJobs } = await load("promise");

/** What is logged by a program, with this class of promises. */
async function order(Class, run) {
  const log = [];
  const done = run(Class, (text) => log.push(text));
  if (Class === JobPromise) runJobs();
  else await done;
  return log;
}

test("jobs run in the order of the standard", async () => {
  const program = (Class, log) => {
    const first = Class.resolve(1).then((n) => log(`a${n}`)).then(() => log("b"));
    const second = new Class((resolve) => resolve(Class.resolve(2))).then((n) => log(`c${n}`));
    const third = Class.reject(new Error("x")).catch(() => log("d")).finally(() => log("e"));
    const fourth = Class.all([1, Class.resolve(2)]).then((all) => log(`f${all}`));
    const fifth = Class.race([Class.resolve(1), Class.resolve(2)]).then((n) => log(`g${n}`));
    return Class.all([first, second, third, fourth, fifth]);
  };
  assert.deepEqual(await order(JobPromise, program), await order(Promise, program));
});

test("what a promise came to is given or thrown", () => {
  assert.equal(awaitNow(7), 7);
  assert.equal(awaitNow(JobPromise.resolve(1).then((n) => n + 1)), 2);
  assert.throws(() => awaitNow(JobPromise.reject(new Error("broken"))), /broken/);
  assert.throws(() => awaitNow(new JobPromise(() => {})), /a promise that nothing settles/);
  const thenable = { then: (resolve) => resolve(5) };
  assert.equal(awaitNow(thenable), 5);
  assert.deepEqual(awaitNow(JobPromise.allSettled([1, JobPromise.reject(2)])), [
    { status: "fulfilled", value: 1 },
    { status: "rejected", reason: 2 },
  ]);
  assert.equal(awaitNow(JobPromise.any([JobPromise.reject(1), 2])), 2);
  assert.throws(() => awaitNow(JobPromise.any([JobPromise.reject(1)])), AggregateError);
});

test("a job that throws in a promise does not stop the others", () => {
  let ran = false;
  JobPromise.resolve().then(() => {
    throw new Error("lost");
  });
  JobPromise.resolve().then(() => {
    ran = true;
  });
  runJobs();
  assert.ok(ran);
});

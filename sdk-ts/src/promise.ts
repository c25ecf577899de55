// Promises for the small engine, which runs no jobs of its own: what waits for a promise would wait
// for ever. A build for it writes async functions as generators, so that every promise is one of
// these, and the end of an event runs what is waiting.

type Job = () => void;
type Resolve<T> = (value: T | PromiseLike<T>) => void;
type Reject = (reason?: unknown) => void;

const jobs: Job[] = [];

/** Runs jobs until none is left. */
export function runJobs(): void {
  for (let at = 0; at < jobs.length; at++) {
    (jobs[at] as Job)();
  }
  jobs.length = 0;
}

export function queueJob(job: Job): void {
  jobs.push(job);
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  const kind = typeof value;
  if (value === null || (kind !== "object" && kind !== "function")) return false;
  return typeof (value as { then?: unknown }).then === "function";
}

/** The standard's promise, without subclasses. */
export class JobPromise<T> implements PromiseLike<T> {
  readonly [Symbol.toStringTag] = "Promise";
  #state: "pending" | "fulfilled" | "rejected" = "pending";
  #value: unknown;
  #waiting: Job[] = [];

  constructor(work: (resolve: Resolve<T>, reject: Reject) => void) {
    if (typeof work !== "function") throw new TypeError("a promise is made with a function");
    const [resolve, reject] = this.#resolvers();
    try {
      work(resolve, reject);
    } catch (error) {
      reject(error);
    }
  }

  /** Whether it is settled, and with what. */
  get outcome(): { state: "pending" | "fulfilled" | "rejected"; value: unknown } {
    return { state: this.#state, value: this.#value };
  }

  #resolvers(): [Resolve<T>, Reject] {
    let done = false;
    const once = (run: (value: unknown) => void) => (value?: unknown) => {
      if (done) return;
      done = true;
      run(value);
    };
    return [once((value) => this.#resolve(value)), once((reason) => this.#settle("rejected", reason))];
  }

  #resolve(value: unknown): void {
    if (value === this) return this.#settle("rejected", new TypeError("a promise cannot wait for itself"));
    let then: unknown;
    try {
      const kind = typeof value;
      then = value !== null && (kind === "object" || kind === "function") ? (value as { then?: unknown }).then : undefined;
    } catch (error) {
      return this.#settle("rejected", error);
    }
    if (typeof then !== "function") return this.#settle("fulfilled", value);
    const [resolve, reject] = this.#resolvers();
    queueJob(() => {
      try {
        (then as (...args: unknown[]) => void).call(value, resolve, reject);
      } catch (error) {
        reject(error);
      }
    });
  }

  #settle(state: "fulfilled" | "rejected", value: unknown): void {
    this.#state = state;
    this.#value = value;
    for (const job of this.#waiting) queueJob(job);
    this.#waiting = [];
  }

  then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): JobPromise<A | B> {
    return new JobPromise<A | B>((resolve, reject) => {
      const job = () => {
        const fulfilled = this.#state === "fulfilled";
        const handler = (fulfilled ? onFulfilled : onRejected) as ((value: unknown) => A | B) | null | undefined;
        if (typeof handler !== "function") {
          return fulfilled ? resolve(this.#value as A) : reject(this.#value);
        }
        try {
          resolve(handler(this.#value));
        } catch (error) {
          reject(error);
        }
      };
      if (this.#state === "pending") this.#waiting.push(job);
      else queueJob(job);
    });
  }

  catch<B = never>(onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null): JobPromise<T | B> {
    return this.then(undefined, onRejected);
  }

  finally(run?: (() => void) | null): JobPromise<T> {
    if (typeof run !== "function") return this.then();
    return this.then(
      (value) => JobPromise.resolve(run()).then(() => value),
      (reason) =>
        JobPromise.resolve(run()).then(() => {
          throw reason;
        }),
    );
  }

  static resolve<V>(value?: V | PromiseLike<V>): JobPromise<V> {
    return value instanceof JobPromise ? value : new JobPromise((resolve) => resolve(value as V));
  }

  static reject<V = never>(reason?: unknown): JobPromise<V> {
    return new JobPromise((_, reject) => reject(reason));
  }

  static withResolvers<V>(): { promise: JobPromise<V>; resolve: Resolve<V>; reject: Reject } {
    let [resolve, reject]: [Resolve<V>, Reject] = [() => {}, () => {}];
    const promise = new JobPromise<V>((yes, no) => {
      [resolve, reject] = [yes, no];
    });
    return { promise, resolve, reject };
  }

  static try<V>(work: (...args: unknown[]) => V | PromiseLike<V>, ...args: unknown[]): JobPromise<V> {
    return new JobPromise((resolve) => resolve(work(...args)));
  }

  static all(values: Iterable<unknown>): JobPromise<unknown[]> {
    return collect(values, (value, done, fail) => value.then(done, fail));
  }

  static allSettled(values: Iterable<unknown>): JobPromise<unknown[]> {
    return collect(values, (value, done) =>
      value.then(
        (value) => done({ status: "fulfilled", value }),
        (reason) => done({ status: "rejected", reason }),
      ),
    );
  }

  static any(values: Iterable<unknown>): JobPromise<unknown> {
    const turned = collect(values, (value, done, fail) => value.then(fail, done));
    return turned.then(
      (errors) => {
        throw new AggregateError(errors as unknown[], "no promise was fulfilled");
      },
      (value) => value,
    );
  }

  static race(values: Iterable<unknown>): JobPromise<unknown> {
    return new JobPromise((resolve, reject) => {
      for (const value of values) JobPromise.resolve(value).then(resolve, reject);
    });
  }
}

function collect(
  values: Iterable<unknown>,
  wait: (value: JobPromise<unknown>, done: (value: unknown) => void, fail: Reject) => void,
): JobPromise<unknown[]> {
  return new JobPromise((resolve, reject) => {
    const results: unknown[] = [];
    let left = 1;
    const oneLess = () => {
      if (--left === 0) resolve(results);
    };
    let at = 0;
    for (const value of values) {
      const place = at++;
      left++;
      const done = (result: unknown) => {
        results[place] = result;
        oneLess();
      };
      wait(JobPromise.resolve(value), done, reject);
    }
    oneLess();
  });
}

/** Runs all that waits, and gives what a promise came to. */
export function awaitNow<T>(value: T | PromiseLike<T>): T {
  if (!isThenable(value)) {
    runJobs();
    return value;
  }
  const promise = JobPromise.resolve(value);
  runJobs();
  const { state, value: outcome } = promise.outcome;
  if (state === "fulfilled") return outcome as T;
  if (state === "rejected") throw outcome;
  throw new Error(
    "the handler waits for a promise that nothing settles: this engine has no timers and no other work " +
      "in the background; build with `--engine web` for those",
  );
}

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** Longer than any step of a test should take, in milliseconds. */
export const PATIENCE_MS = 20_000;

/** One record: `kind`, `class`, `name`, and more for each kind, as the page of the command line lists them. */
export type TailRecord = Record<string, unknown> & { kind: string; class: string; name: string };

/** What happens on a node, as `wasmkeep tail --json` tells it. */
export class Tail {
  readonly #process: ChildProcess;
  readonly #records: TailRecord[] = [];
  #told: () => void = () => {};

  private constructor(process: ChildProcess) {
    this.#process = process;
  }

  /** @internal */
  static async start(program: string, words: readonly string[], env: NodeJS.ProcessEnv): Promise<Tail> {
    const started = spawn(program, ["tail", "--json", ...words], { env, stdio: ["ignore", "pipe", "pipe"] });
    const tail = new Tail(started);
    createInterface(started.stdout).on("line", (line) => {
      tail.#records.push(JSON.parse(line) as TailRecord);
      tail.#told();
    });
    await new Promise<void>((done, failed) => {
      started.once("error", failed);
      started.once("close", (code) => failed(new Error(`wasmkeep tail ended with ${code}`)));
      // It says so once it listens.
      started.stderr.once("data", () => done());
    });
    return tail;
  }

  /** The next record that fits, others passed over; throws when none comes within 20 s. */
  async waitFor(what: string, fits: (record: TailRecord) => boolean): Promise<TailRecord> {
    const until = performance.now() + PATIENCE_MS;
    const others: TailRecord[] = [];
    for (;;) {
      const record = this.#records.shift();
      if (record === undefined) {
        const left = until - performance.now();
        if (left <= 0) throw new Error(`no record of ${what}; there were ${JSON.stringify(others)}`);
        await new Promise<void>((done) => {
          const late = setTimeout(done, left);
          this.#told = () => {
            clearTimeout(late);
            done();
          };
        });
      } else if (fits(record)) {
        return record;
      } else {
        others.push(record);
      }
    }
  }

  /** Follows no further. */
  close(): void {
    this.#process.kill("SIGKILL");
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

// `@wasmkeep/sdk/test`: a server of its own for each test. It starts the executable and uses its
// commands, so a test sees what an operator sees.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

import { Actor } from "./actor.js";
import { PATIENCE_MS, Tail } from "./tail.js";

const run = promisify(execFile);

const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;

/** What a node serves. */
export interface NodeOptions {
  /** Component files, by class. */
  actors?: Record<string, string>;
  /** The component file of the front. */
  front?: string;
  /** Further flags of `wasmkeep serve`, each word by itself. */
  flags?: readonly string[];
}

/**
 * A server of its own, with data of its own and a clock that stands until `advance` moves it. Close
 * it when the test ends, or declare it with `await using`.
 */
export class Node {
  readonly #arguments: readonly string[];
  readonly #data: string;
  #process: ChildProcess | undefined;
  #url = "";
  #log = "";

  private constructor(words: readonly string[], data: string) {
    this.#arguments = words;
    this.#data = data;
  }

  /** Starts a node of component files. */
  static async start(options: NodeOptions): Promise<Node> {
    const words: string[] = [];
    if (options.front !== undefined) words.push("--front", options.front);
    for (const [name, file] of Object.entries(options.actors ?? {})) words.push("--actor", `${name}=${file}`);
    return Node.#of([...words, ...(options.flags ?? [])]);
  }

  /**
   * Starts what the project of a folder serves, built first: once for each project and process. The
   * project is the nearest folder upwards with a `wasmkeep.toml`.
   */
  static async ofProject(folder = ".", flags: readonly string[] = []): Promise<Node> {
    const settings = settingsOf(resolve(folder));
    await build(settings);
    return Node.#of(["--config", settings, ...flags]);
  }

  static async #of(words: readonly string[]): Promise<Node> {
    const node = new Node(words, mkdtempSync(join(tmpdir(), "wasmkeep-test-")));
    try {
      await node.#begin();
    } catch (error) {
      await node.close();
      throw error;
    }
    return node;
  }

  /** `http://127.0.0.1:PORT`. It is another one after `crash` and `restart`. */
  get url(): string {
    return this.#url;
  }

  /** What the server has logged so far. */
  get log(): string {
    return this.#log;
  }

  /** `class/name`, the name as it is written in URLs. */
  actor(address: string): Actor {
    return new Actor(() => `${this.#url}/actor/${address}`);
  }

  /** The front, and any path. */
  client(): Actor {
    return new Actor(() => this.#url);
  }

  /** The URL of a WebSocket at a path, for a client of your choice: `ws://127.0.0.1:PORT/…`. */
  socketUrl(path: string): string {
    return this.#url.replace(/^http/, "ws") + path;
  }

  /**
   * Moves the clock on, by milliseconds. Alarms that are due then run soon, so wait for what they do
   * (`eventually`); actors leave memory when that is as long as the idle timeout (30 s).
   */
  async advance(ms: number): Promise<void> {
    await this.#command("clock", "advance", `${Math.round(ms)}ms`);
  }

  /** Has an idle actor leave memory: what its instance held is lost. `class/name`, the name as it is. */
  async sleep(actor: string): Promise<void> {
    await this.#command("actor", "hibernate", actor);
  }

  /** Runs a statement that only reads on an actor's database: a row each, columns by name. */
  async sql(actor: string, statement: string): Promise<Record<string, unknown>[]> {
    const printed = await this.#command("actor", "sql", "--format", "json", actor, statement);
    const lines = printed.split("\n").filter((line) => line !== "");
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** Follows what happens from now on: events, calls, lines of the log. */
  async tail(): Promise<Tail> {
    return Tail.start(wasmkeep(), ["--data-dir", this.#data], environment());
  }

  /** Kills the server, as the loss of its process would, and starts it again on the same data. */
  async crash(): Promise<void> {
    await this.#end("SIGKILL");
    await this.#begin();
  }

  /** Stops the server in the regular way, and starts it again on the same data. */
  async restart(): Promise<void> {
    await this.#end("SIGTERM");
    await this.#begin();
  }

  /** Ends the server and removes its data. */
  async close(): Promise<void> {
    await this.#end("SIGKILL");
    rmSync(this.#data, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #command(...words: readonly string[]): Promise<string> {
    const options = { env: environment(), maxBuffer: OUTPUT_BYTES_MAX };
    const { stdout } = await run(wasmkeep(), [...words, "--data-dir", this.#data], options);
    return stdout;
  }

  async #begin(): Promise<void> {
    const words = ["serve", ...this.#arguments, "--clock", "manual", "--listen", "127.0.0.1:0"];
    const started = spawn(wasmkeep(), [...words, "--data-dir", this.#data], {
      env: environment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = started;
    started.stderr.setEncoding("utf8").on("data", (text: string) => (this.#log += text));
    this.#url = await new Promise<string>((done, failed) => {
      const ends = (why: string) => {
        clearTimeout(late);
        failed(new Error(`the server did not start (${why}):\n${this.#log}`));
      };
      const late = setTimeout(() => ends(`not within ${PATIENCE_MS} ms`), PATIENCE_MS);
      started.once("error", (error) => ends(`${error.message}; is wasmkeep installed, or WASMKEEP set?`));
      started.once("close", (code) => ends(`exit code ${code}`));
      createInterface(started.stdout).on("line", (line) => {
        const url = /^listening on (\S+)/.exec(line)?.[1];
        if (url === undefined) return;
        clearTimeout(late);
        done(url);
      });
    });
  }

  async #end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const ending = this.#process;
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const ended = new Promise<void>((done) => ending.once("close", () => done()));
    ending.kill(signal);
    await ended;
  }
}

/** Waits until `condition` holds; throws with `what` when it does not within 20 s. */
export async function eventually(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const until = performance.now() + PATIENCE_MS;
  while (!(await condition())) {
    if (performance.now() > until) throw new Error(`not within ${PATIENCE_MS} ms: ${what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

function wasmkeep(): string {
  return process.env["WASMKEEP"] || "wasmkeep";
}

/** Settings of the environment do not reach the server: a test says all it needs. */
function environment(): NodeJS.ProcessEnv {
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith("WASMKEEP_"));
  return Object.fromEntries(others);
}

function settingsOf(folder: string): string {
  for (let at = folder; ; at = dirname(at)) {
    const file = join(at, "wasmkeep.toml");
    if (existsSync(file)) return file;
    if (dirname(at) === at) throw new Error(`no wasmkeep.toml in ${folder} or above it`);
  }
}

const built = new Map<string, Promise<unknown>>();

async function build(settings: string): Promise<void> {
  const known = built.get(settings);
  const running = known ?? run(wasmkeep(), ["build", "--config", settings], { env: environment() });
  built.set(settings, running);
  await running;
}

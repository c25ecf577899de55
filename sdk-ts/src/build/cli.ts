// `wasmkeep-ts`: what it is told, and how it ends.

import { statSync } from "node:fs";
import { build, type Engine, ENGINES, type World, WORLDS } from "./build.js";
import { Failure, UsageFailure } from "./failure.js";

const HELP = `wasmkeep-ts build [OPTIONS] ENTRY -o OUT.wasm

Makes a component for WasmKeep of a TypeScript or JavaScript module.

  ENTRY                   the module; it has a default export: a class that extends Actor,
                          or what defineFront gives
  -o, --output OUT.wasm   where the component goes
      --world WORLD       actor (the default) or front
      --engine ENGINE     small (the default: QuickJS) or web (StarlingMonkey, with Web APIs;
                          needs @bytecodealliance/componentize-js)
      --no-check          leave out the type check, which runs where typescript is installed
  -h, --help              print this
`;

/** Runs the command and gives its exit code: 0 done, 1 failed, 2 no such command. */
export async function main(args: readonly string[]): Promise<number> {
  try {
    const options = parse(args);
    if (!options) {
      process.stdout.write(HELP);
      return 0;
    }
    const started = performance.now();
    await build(options);
    const kib = Math.ceil(statSync(options.output).size / 1024);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    console.log(`wrote ${options.output}: ${kib} KiB, world ${options.world}, engine ${options.engine}, in ${seconds} s`);
    return 0;
  } catch (error) {
    if (error instanceof UsageFailure) {
      console.error(`error: ${error.message}\n\n${HELP}`);
      return 2;
    }
    console.error(error instanceof Failure ? `error: ${error.message}` : error);
    return 1;
  }
}

export function parse(args: readonly string[]) {
  const [command, ...rest] = args;
  if (command === undefined || command === "--help" || command === "-h" || command === "help") return undefined;
  if (command !== "build") throw new UsageFailure(`there is no command ${JSON.stringify(command)}`);
  let entry: string | undefined;
  let output: string | undefined;
  let world: World = "actor";
  let engine: Engine = "small";
  let check = true;
  const words = rest.flatMap((word) => (/^--\w+=/.test(word) ? split(word) : [word]));
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string;
    const value = () => {
      const next = words[++at];
      if (next === undefined) throw new UsageFailure(`${word} needs a value`);
      return next;
    };
    if (word === "-h" || word === "--help") return undefined;
    if (word === "-o" || word === "--output") output = value();
    else if (word === "--world") world = oneOf(WORLDS, word, value());
    else if (word === "--engine") engine = oneOf(ENGINES, word, value());
    else if (word === "--no-check") check = false;
    else if (word.startsWith("-")) throw new UsageFailure(`there is no option ${word}`);
    else if (entry !== undefined) throw new UsageFailure(`one ENTRY at a time: ${entry} or ${word}`);
    else entry = word;
  }
  if (entry === undefined) throw new UsageFailure("say which module to build: ENTRY is missing");
  if (output === undefined) throw new UsageFailure("say where the component goes: -o OUT.wasm is missing");
  return { entry, output, world, engine, check };
}

function split(word: string): string[] {
  const at = word.indexOf("=");
  return [word.slice(0, at), word.slice(at + 1)];
}

function oneOf<T extends string>(all: readonly T[], option: string, value: string): T {
  const found = all.find((one) => one === value);
  if (!found) throw new UsageFailure(`${option} is ${all.join(" or ")}, not ${JSON.stringify(value)}`);
  return found;
}

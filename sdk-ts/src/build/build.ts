// From an entry module to a component.

import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

import { bundle } from "./bundle.js";
import { Failure } from "./failure.js";
import { componentOfSmall } from "./small.js";
import { checkTypes } from "./types.js";
import { componentOfWeb } from "./web.js";

export const WORLDS = ["actor", "front"] as const;
export type World = (typeof WORLDS)[number];

export const ENGINES = ["small", "web"] as const;
export type Engine = (typeof ENGINES)[number];

export interface BuildOptions {
  /** The module whose default export is the actor or the front. */
  entry: string;
  /** The component's file. */
  output: string;
  world: World;
  engine: Engine;
  /** Whether types are checked, where typescript is installed. */
  check: boolean;
}

export async function build(options: BuildOptions): Promise<void> {
  const entry = resolve(options.entry);
  if (!isFile(entry)) throw new Failure(`${options.entry} is no file: ENTRY is the module to build`);
  if (options.check) checkTypes(entry);
  const scratch = mkdtempSync(join(tmpdir(), "wasmkeep-ts-"));
  try {
    const made = await bundle(entry, options.world, options.engine);
    const component =
      options.engine === "small"
        ? await componentOfSmall(made, options.world, scratch)
        : await componentOfWeb(made, options.world, scratch, entry);
    mkdirSync(dirname(resolve(options.output)), { recursive: true });
    // Whole or not at all: a server may be about to read the file.
    const unfinished = `${options.output}.unfinished`;
    writeFileSync(unfinished, component);
    renameSync(unfinished, options.output);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

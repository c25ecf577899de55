// The contract as an engine is given it.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { World } from "./build.js";
import { witFolder } from "./paths.js";

/** What the small engine's globals are made of: declarations of the WASI 0.2 standard. */
const RANDOM = `package wasi:random@0.2.0;
interface random {
  get-random-bytes: func(len: u64) -> list<u8>;
}
`;
const CLI = `package wasi:cli@0.2.0;
interface stdout {
  use wasi:io/streams@0.2.0.{output-stream};
  get-stdout: func() -> output-stream;
}
interface stderr {
  use wasi:io/streams@0.2.0.{output-stream};
  get-stderr: func() -> output-stream;
}
`;
const IMPORTS = `
  import wasi:io/poll@0.2.0;
  import wasi:io/streams@0.2.0;
  import wasi:clocks/monotonic-clock@0.2.0;
`;
const IMPORTS_OF_SMALL = `${IMPORTS}
  import wasi:random/random@0.2.0;
  import wasi:cli/stdout@0.2.0;
  import wasi:cli/stderr@0.2.0;
`;

/** Writes the contract into a folder, changed file by file, and gives that folder. */
export function writeWit(scratch: string, world: World, small: boolean, change: (text: string) => string): string {
  const to = join(scratch, "wit");
  const from = witFolder();
  mkdirSync(join(to, "deps"), { recursive: true });
  const files = [...witFiles(from, ""), ...witFiles(from, "deps")];
  for (const file of files) {
    let text = readFileSync(join(from, file), "utf8");
    if (file === `${world}.wit`) {
      text = text.replace(`world ${world} {`, `world ${world} {${small ? IMPORTS_OF_SMALL : IMPORTS}`);
    }
    writeFileSync(join(to, file), change(text));
  }
  if (small) {
    writeFileSync(join(to, "deps", "random.wit"), change(RANDOM));
    writeFileSync(join(to, "deps", "cli.wit"), change(CLI));
  }
  return to;
}

function witFiles(folder: string, below: string): string[] {
  const names = readdirSync(join(folder, below)).filter((name) => name.endsWith(".wit"));
  return names.map((name) => join(below, name));
}


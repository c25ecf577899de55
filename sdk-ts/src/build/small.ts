// The small engine: QuickJS, by componentize-qjs. Its tool has two limits that are worked around here,
// both by giving it another contract than the component is to have, and mending the component:
//
// - It starts a component to take its memory, with WASI of its own and traps for what else is
//   imported. Such a trap for `wasi:http` has another type of stream than its WASI, and nothing
//   starts. Under another name all of ours are traps, and agree.
// - It carries 64-bit integers as floats, which hold 53 bits. Two words of 32 bits lie in memory as
//   one of 64 does, so where values lie in memory (SQL values are in lists, always) it is told of two.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { componentize } from "componentize-qjs";

import type { World } from "./build.js";
import { type Bundle, STAND_IN } from "./bundle.js";
import { mended } from "./component.js";
import { Failure } from "./failure.js";
import { mapped } from "../stack.js";
import { writeWit } from "./wit.js";

const INTEGER = "    integer(s64),";
const VARIANT = "  variant value {";

export async function componentOfSmall({ code, lines }: Bundle, world: World, scratch: string): Promise<Uint8Array> {
  const witPath = writeWit(scratch, world, true, standIn);
  const jsSource = `${code}\nglobalThis.wasmkeepLines = ${JSON.stringify(lines)};\n`;
  // The tool reads the source as given; the file is what stacks name.
  const jsPath = join(scratch, "bundle.js");
  writeFileSync(jsPath, jsSource);
  const options = { witPath, world, jsSource, jsPath, moduleRoot: scratch, sync: true };
  const made = await componentize(options).catch((error: Error) => {
    throw new Failure(`the module does not start: ${mapped(error.message, lines).trim()}`);
  });
  return mended(made.component, world === "actor");
}

function standIn(wit: string): string {
  let text = wit.replaceAll("wasi:", STAND_IN);
  if (text.includes(VARIANT)) {
    if (!text.includes(INTEGER)) throw new Failure("wit/storage.wit has no `integer(s64)`: this SDK is of another version");
    text = text.replace(VARIANT, `  type words = tuple<s32, s32>;\n${VARIANT}`).replace(INTEGER, "    integer(words),");
  }
  return text;
}

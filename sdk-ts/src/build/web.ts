// The web engine: StarlingMonkey, by ComponentizeJS.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { readFileSync, writeFileSync } from "node:fs";

import type { World } from "./build.js";
import type { Bundle } from "./bundle.js";
import { Failure } from "./failure.js";
import { mapped } from "../stack.js";
import { installed } from "./paths.js";
import { writeWit } from "./wit.js";

const TOOL = "@bytecodealliance/componentize-js";
/** The second is what the first imports and does not depend on: `npm ci` may leave it out, and 0.26 does not work. */
const INSTALL = `npm install --save-dev ${TOOL}@0.23.0 @bytecodealliance/preview2-shim@0.25.0`;

interface Tool {
  componentize(options: {
    sourcePath: string;
    witPath: string;
    worldName: string;
  }): Promise<{ component: Uint8Array }>;
}

export async function componentOfWeb(
  { code, lines }: Bundle,
  world: World,
  scratch: string,
  entry: string,
): Promise<Uint8Array> {
  const { componentize } = await tool(entry);
  const witPath = writeWit(scratch, world, false, (text) => text);
  const sourcePath = join(scratch, "bundle.js");
  writeFileSync(sourcePath, `${code}\nglobalThis.wasmkeepLines = ${JSON.stringify(lines)};\n`);
  const made = await componentize({ sourcePath, witPath, worldName: world }).catch((error: Error) => {
    throw new Failure(`the module does not start: ${mapped(error.message, lines).trim()}`);
  });
  return made.component;
}

/** The tool is large and many need it not: a project that wants it installs it. */
async function tool(entry: string): Promise<Tool> {
  const folder = installed(TOOL, entry);
  if (!folder) throw new Failure(`the engine \`web\` is made by another package: ${INSTALL}`);
  const { exports } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { exports: { import: string } };
  return (await import(pathToFileURL(join(folder, exports.import)).href)) as Tool;
}

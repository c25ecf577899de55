// The type check: the project's own compiler and settings, where there are any.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

import { Failure } from "./failure.js";
import { installed } from "./paths.js";

/** Fails where the project's types do not hold. Without typescript or a tsconfig.json nothing is checked. */
export function checkTypes(entry: string): void {
  if (!/\.[cm]?tsx?$/.test(entry)) return;
  const project = nearest(dirname(entry), "tsconfig.json");
  const compiler = project && compilerFor(project);
  if (!project || !compiler) {
    console.warn(`types are not checked: ${project ? "typescript is not installed" : "there is no tsconfig.json"}`);
    return;
  }
  const { status, stdout, stderr } = spawnSync(process.execPath, [compiler, "--noEmit", "-p", project], { encoding: "utf8" });
  if (status !== 0) {
    throw new Failure(`the types of ${project} do not hold (--no-check builds anyway):\n${stdout}${stderr}`.trimEnd());
  }
}

function nearest(folder: string, file: string): string | undefined {
  const path = join(folder, file);
  if (existsSync(path)) return path;
  const parent = dirname(folder);
  return parent === folder ? undefined : nearest(parent, file);
}

/** The project's own; where this package is developed, that of the package. */
function compilerFor(project: string): string | undefined {
  const folder = installed("typescript", project);
  return folder && join(folder, "bin", "tsc");
}

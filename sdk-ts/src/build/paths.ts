// Where this package is, and what it carries.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { Failure } from "./failure.js";

const PACKAGE = new URL("../../", import.meta.url);

/** A file of this package. */
export function ofPackage(path: string): string {
  return fileURLToPath(new URL(path, PACKAGE));
}

/** The contract: the package's own copy; in the repository, the original beside the package. */
export function witFolder(): string {
  for (const path of ["wit/", "../wit/"]) {
    if (existsSync(new URL(`${path}actor.wit`, PACKAGE))) return ofPackage(path);
  }
  throw new Failure("the package has no wit/ folder: install @wasmkeep/sdk again");
}

/** The folder of a package that the module at `from`, or this tool, would import. */
export function installed(name: string, from: string): string | undefined {
  for (const start of [dirname(from), ofPackage(".")]) {
    for (let folder = start; ; folder = dirname(folder)) {
      const path = join(folder, "node_modules", name);
      if (existsSync(join(path, "package.json"))) return path;
      if (dirname(folder) === folder) break;
    }
  }
  return undefined;
}

// One JavaScript module of an entry and all it imports.

import { isBuiltin } from "node:module";
import { basename, dirname, relative, resolve } from "node:path";

import { build as esbuild, type Message, type Plugin } from "esbuild";

import type { Lines } from "../stack.js";
import type { Engine, World } from "./build.js";
import { Failure } from "./failure.js";
import { linesOf } from "./lines.js";
import { ofPackage } from "./paths.js";

/** Another name of `wasi:`, of the same length: see `small.ts`. */
export const STAND_IN = "wask:";

/** What the SDK calls the interfaces of the contract. */
const INTERFACES: Record<string, string> = {
  "host:actors": "wasmkeep:actor/actors@0.2.0",
  "host:alarms": "wasmkeep:actor/alarms@0.2.0",
  "host:calls": "wasmkeep:actor/calls@0.2.0",
  "host:clock": "wasi:clocks/monotonic-clock@0.2.0",
  "host:env": "wasmkeep:actor/env@0.2.0",
  "host:http": "wasi:http/types@0.2.0",
  "host:io/poll": "wasi:io/poll@0.2.0",
  "host:outgoing-handler": "wasi:http/outgoing-handler@0.2.0",
  "host:random": "wasi:random/random@0.2.0",
  "host:stderr": "wasi:cli/stderr@0.2.0",
  "host:stdout": "wasi:cli/stdout@0.2.0",
  "host:storage": "wasmkeep:actor/storage@0.2.0",
  "host:websockets": "wasmkeep:actor/websockets@0.2.0",
};

/** What only actors have. */
const OF_ACTORS = ["host:alarms", "host:storage", "host:websockets"];
/** What the web engine has in another way. */
const NOT_OF_WEB = ["host:random", "host:stderr", "host:stdout"];

const EXPORTS: Record<World, string> = {
  actor: "incomingHandler, onInit, onAlarm, onWebsocketOpen, onWebsocketMessage, onWebsocketClose",
  front: "incomingHandler",
};

export interface Bundle {
  code: string;
  lines: Lines;
}

export async function bundle(entry: string, world: World, engine: Engine): Promise<Bundle> {
  const exporter = world === "actor" ? "exportActor" : "exportFront";
  const folder = dirname(entry);
  const wrapper = `
    import { ${exporter} } from ${JSON.stringify(ofPackage("dist/host/export.js"))};
    import * as entry from ${JSON.stringify(`./${basename(entry)}`)};
    export const { ${EXPORTS[world]} } = ${exporter}(entry.default);
  `;
  const result = await esbuild({
    stdin: { contents: wrapper, resolveDir: folder, sourcefile: "wasmkeep:exports", loader: "js" },
    bundle: true,
    format: "esm",
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["worker", "import"],
    target: "es2022",
    // The small engine runs no jobs between calls: see `promise.ts`.
    supported: engine === "small" ? { "async-await": false, "async-generator": false, "for-await": false } : {},
    define: { WASMKEEP_ENGINE: JSON.stringify(engine) },
    minifySyntax: true,
    keepNames: false,
    charset: "utf8",
    legalComments: "none",
    sourcemap: "external",
    outfile: resolve(folder, "bundle.js"),
    write: false,
    logLevel: "silent",
    plugins: [sdk(), host(world, engine), node()],
  }).catch((error: { errors?: Message[] }) => {
    throw new Failure((error.errors ?? []).map(told).join("\n") || String(error));
  });
  const text = (suffix: string) => result.outputFiles.find(({ path }) => path.endsWith(suffix))?.text ?? "";
  return { code: text("bundle.js"), lines: linesOf(text("bundle.js.map"), (file) => shortened(file, folder)) };
}

/** How a file is named in stacks: not by where it was on the machine that built it. */
function shortened(file: string, folder: string): string {
  const path = resolve(folder, file);
  const inModules = path.lastIndexOf("node_modules/");
  if (inModules >= 0) return path.slice(inModules + "node_modules/".length);
  const inSdk = relative(ofPackage("."), path);
  if (!inSdk.startsWith("..")) return `@wasmkeep/sdk/${inSdk}`;
  return relative(folder, path).replace(/^(\.\.\/)+/, "");
}

function told({ text, location }: Message): string {
  if (!location) return text;
  return `${location.file}:${location.line}:${location.column}: ${text}`;
}

/** The SDK is the one this tool belongs to, wherever the entry lies. */
function sdk(): Plugin {
  return {
    name: "sdk",
    setup(build) {
      build.onResolve({ filter: /^@wasmkeep\/sdk(\/.*)?$/ }, ({ path }) => {
        const module = path === "@wasmkeep/sdk" ? "index" : path === "@wasmkeep/sdk/front" ? "front" : undefined;
        if (!module) return { errors: [{ text: `${path} is no module of the SDK: @wasmkeep/sdk or @wasmkeep/sdk/front` }] };
        return { path: ofPackage(`dist/${module}.js`), sideEffects: false };
      });
    },
  };
}

function host(world: World, engine: Engine): Plugin {
  return {
    name: "host",
    setup(build) {
      build.onResolve({ filter: /^host:/ }, ({ path }) => ({ path, namespace: "host", sideEffects: false }));
      build.onLoad({ filter: /.*/, namespace: "host" }, ({ path }) => {
        if (world === "front" && OF_ACTORS.includes(path)) {
          const text = `a front has no ${path.slice("host:".length)}: ask an actor`;
          const contents = `export default new Proxy({}, { get() { throw new TypeError(${JSON.stringify(text)}) } });`;
          return { contents };
        }
        if (engine === "web" && NOT_OF_WEB.includes(path)) return { contents: "export default undefined;" };
        const name = INTERFACES[path];
        if (!name) return { errors: [{ text: `the contract has no ${path}` }] };
        // One engine gives an interface as a default export, the other as its parts.
        return engine === "small"
          ? { contents: `import host from ${JSON.stringify(name.replace("wasi:", STAND_IN))}; export default host;` }
          : { contents: `import * as host from ${JSON.stringify(name)}; export default host;` };
      });
      build.onResolve({ filter: /^(wasmkeep|wasi|wask):/, namespace: "host" }, ({ path }) => ({ path, external: true }));
    },
  };
}

function node(): Plugin {
  return {
    name: "node",
    setup(build) {
      build.onResolve({ filter: /^[a-z_/:]+$/ }, async (args) => {
        if (!isBuiltin(args.path) || args.pluginData === "asked") return undefined;
        // A package of that name may be installed in its place.
        if (!args.path.startsWith("node:")) {
          const { kind, importer, resolveDir } = args;
          const found = await build.resolve(args.path, { kind, importer, resolveDir, pluginData: "asked" });
          if (found.errors.length === 0) return found;
        }
        return { errors: [{ text: `${args.path} is a module of Node.js: an actor has no files, sockets or processes` }] };
      });
    },
  };
}

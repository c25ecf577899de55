import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { load } from "./sdk.js";

const { linesOf } = await load("build/lines");
const { mapped } = await load("stack");
const { parse } = await load("build/cli");

const SDK = fileURLToPath(new URL("..", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "wasmkeep-sdk-test-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

function write(name, text) {
  const path = join(scratch, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

function run(command, args, options = {}) {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8", ...options });
  return { status, text: stdout + stderr };
}

const tool = (...args) => run(process.execPath, [join(SDK, "bin/wasmkeep-ts.js"), ...args]);

const ACTOR = `import { Actor, Response } from "@wasmkeep/sdk";
export default class Hello extends Actor { request() { return Response.text("hello"); } }
`;

test("a command line that cannot be meant is refused with 2 and says why", () => {
  for (const [args, why] of [
    [["bild"], /no command "bild"/],
    [["build", "-o", "x.wasm"], /ENTRY is missing/],
    [["build", "x.ts"], /-o OUT.wasm is missing/],
    [["build", "x.ts", "-o"], /-o needs a value/],
    [["build", "x.ts", "--engine", "v8"], /--engine is small or web, not "v8"/],
    [["build", "x.ts", "--wrld", "front"], /no option --wrld/],
    [["build", "x.ts", "y.ts", "-o", "z"], /one ENTRY at a time/],
  ]) {
    const { status, text } = tool(...args);
    assert.equal(status, 2, text);
    assert.match(text, why);
  }
  assert.equal(parse(["build", "a.ts", "--world=front", "-o", "b"]).world, "front");
  assert.equal(tool("--help").status, 0);
});

test("a component is made, and what is no actor is refused with what to export", () => {
  const out = join(scratch, "out.wasm");
  const built = tool("build", write("hello.js", ACTOR), "-o", out);
  assert.equal(built.status, 0, built.text);
  const component = readFileSync(out);
  assert.equal(component.readUInt32BE(0), 0x0061736d);
  assert.ok(!component.includes("wask:http/types@0.2.0#"), "the names are the contract's");
  for (const [source, why] of [
    ["export const x = 1;", /export default class … extends Actor/],
    ['import fs from "node:fs"; export default fs;', /entry\.js:1:\d+: node:fs is a module of Node\.js/],
    ['import x from "./nowhere.js"; export default x;', /Could not resolve "\.\/nowhere\.js"/],
    ["export default class {", /entry\.js:1:/],
    [`${ACTOR}\nthrow new Error("at the start");`, /does not start: .*at the start/s],
    ['import "@wasmkeep/sdk/inside";', /no module of the SDK/],
  ]) {
    const { status, text } = tool("build", write("entry.js", source), "-o", out);
    assert.equal(status, 1, text);
    assert.match(text, why);
  }
  assert.match(tool("build", join(scratch, "none.ts"), "-o", out).text, /is no file/);
});

test("types that do not hold stop the build, unless they are not checked", () => {
  const folder = "typed";
  write(`${folder}/tsconfig.json`, JSON.stringify({ compilerOptions: { strict: true, noEmit: true, types: [] }, include: ["."] }));
  const entry = write(`${folder}/entry.ts`, `const n: number = "text"; export default n;`);
  const checked = tool("build", entry, "-o", join(scratch, "typed.wasm"));
  assert.equal(checked.status, 1);
  assert.match(checked.text, /types of .* do not hold.*TS2322/s);
  assert.doesNotMatch(tool("build", entry, "--no-check", "-o", join(scratch, "typed.wasm")).text, /TS2322/);
});

test("a stack names the author's lines", () => {
  // Line 1: nothing; line 2: a.ts line 1; line 3: b.ts line 10, then back to a.ts.
  const map = JSON.stringify({ version: 3, sources: ["a.ts", "b.ts"], mappings: ";AAAA;ACSA,IDRA" });
  const lines = linesOf(map, (file) => `src/${file}`);
  assert.equal(mapped("    at f (/bundle.js:3:7)\n    at bundle.js:2:1", lines), "    at f (src/b.ts:10)\n    at src/a.ts:1");
  assert.equal(mapped("at f (bundle.js:1:1)", lines), "at f (bundle.js:1:1)");
  assert.equal(mapped("at f (bundle.js:99:1)", lines), "at f (bundle.js:99:1)");
  assert.equal(mapped("at f (other.js:2:1)", lines), "at f (other.js:2:1)");
});

test("client and server of a service have its types", () => {
  const folder = "service";
  write(`${folder}/entry.ts`, `import { type Actor, service } from "@wasmkeep/sdk";
    const Stock = service.define("Stock", {
      error: service.variants({ TooFew: { left: "integer" }, Closed: null }),
      methods: {
        put: { takes: ["integer", service.list({ name: "text?" })], gives: { pairs: "integer" } },
        count: { gives: service.optional(["text", "boolean"]) },
        clear: {},
      },
    });
    const stock = Stock.client("stock/socks");
    const pairs: number = stock.put(1, [{ name: null }]).pairs;
    const counted: [string, boolean] | null = stock.count();
    // @ts-expect-error a text for a number
    stock.put("1", []);
    // @ts-expect-error an argument is missing
    stock.put(1);
    // @ts-expect-error a field that is not there
    stock.put(1, []).pears;
    // @ts-expect-error it may be null
    stock.count()[0];
    // @ts-expect-error no such method
    stock.take(1);
    // @ts-expect-error nothing is given
    const nothing: number = stock.clear();
    class Shelf implements service.ServerOf<typeof Stock> {
      put(pairs: number, names: { name: string | null }[]) { return { pairs: pairs + names.length }; }
      async count(): Promise<[string, boolean] | null> { throw new Stock.Error("Closed"); }
      clear() { throw new Stock.Error({ TooFew: { left: 1 } }); }
    }
    // @ts-expect-error a method is missing
    class Half implements service.ServerOf<typeof Stock> { clear() {} }
    // @ts-expect-error no error of the service
    new Stock.Error({ TooMany: { left: 1 } });
    // @ts-expect-error no kind of value
    service.define("Stock", { methods: { put: { takes: ["intger"] } } });
    try { stock.clear(); } catch (error) {
      if (error instanceof Stock.Error && error.own !== "Closed") { const left: number = error.own.TooFew.left; }
    }
    export { pairs, counted, nothing, Shelf, Half, type Actor };`);
  const compilerOptions = {
    ...{ target: "es2022", lib: ["es2024"], module: "esnext", moduleResolution: "bundler", strict: true, noEmit: true, types: [] },
    paths: { "@wasmkeep/sdk": [join(SDK, "dist/index.d.ts")] },
  };
  write(`${folder}/tsconfig.json`, JSON.stringify({ compilerOptions, include: ["."] }));
  const { status, text } = run(process.execPath, [join(SDK, "node_modules/typescript/bin/tsc"), "-p", join(scratch, folder)]);
  assert.equal(status, 0, text);
});

test("the package installs into an empty folder and builds there", () => {
  const packed = run("npm", ["pack", "--silent", "--pack-destination", scratch], { cwd: SDK });
  assert.equal(packed.status, 0, packed.text);
  const archive = join(scratch, packed.text.trim().split("\n").at(-1));
  const folder = dirname(write("empty/actor.js", ACTOR));
  write("empty/package.json", '{ "private": true, "type": "module" }');
  const installed = run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", "--silent", archive], { cwd: folder });
  assert.equal(installed.status, 0, installed.text);
  const built = run("npx", ["--no-install", "wasmkeep-ts", "build", "actor.js", "-o", "actor.wasm"], { cwd: folder });
  assert.equal(built.status, 0, built.text);
  assert.ok(readFileSync(join(folder, "actor.wasm")).length > 1_000_000);
});

// What the small engine lacks and programs expect: `console`, text in and out of UTF-8, random
// numbers that differ from one instance to the next, and promises that are run.

import random from "host:random";

import { shown } from "../log.js";
import { JobPromise, queueJob } from "../promise.js";
import { decode, decodeLossy, encode } from "../utf8.js";
import { ENGINE, u64 } from "./engine.js";
import { logLine, printLine } from "./output.js";

const RANDOM_BYTES_MAX = 65_536;

function randomBytes(length: number): Uint8Array {
  return random.getRandomBytes(u64(length));
}

/**
 * Random numbers of the instance. The engine's own begin where the build left them: alike in every
 * instance of a component.
 */
function randomNumber(): () => number {
  let pool: DataView | undefined;
  let at = 0;
  return () => {
    if (!pool || at === pool.byteLength) {
      const bytes = randomBytes(512);
      pool = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      at = 0;
    }
    const n = (pool.getUint32(at) >>> 5) * 0x400_0000 + (pool.getUint32(at + 4) >>> 6);
    at += 8;
    return n / 0x20_0000_0000_0000;
  };
}

class TextEncoder {
  readonly encoding = "utf-8";
  encode(text = ""): Uint8Array {
    return encode(String(text));
  }
}

class TextDecoder {
  readonly encoding = "utf-8";
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;

  constructor(label = "utf-8", options: { fatal?: boolean; ignoreBOM?: boolean } = {}) {
    if (!/^\s*(utf-?8|unicode-1-1-utf-8)\s*$/i.test(label)) {
      throw new RangeError(`${label}: this engine decodes utf-8 only`);
    }
    this.fatal = options.fatal ?? false;
    this.ignoreBOM = options.ignoreBOM ?? false;
  }

  decode(input: ArrayBuffer | ArrayBufferView = new Uint8Array(0)): string {
    const bytes = ArrayBuffer.isView(input)
      ? new Uint8Array(input.buffer as ArrayBuffer, input.byteOffset, input.byteLength)
      : new Uint8Array(input);
    const text = this.fatal ? decode(bytes) : decodeLossy(bytes);
    if (text === undefined) throw new TypeError("the bytes are not UTF-8");
    return !this.ignoreBOM && text.startsWith("\ufeff") ? text.slice(1) : text;
  }
}

const crypto = {
  getRandomValues<T extends ArrayBufferView>(array: T): T {
    if (array.byteLength > RANDOM_BYTES_MAX) {
      throw new RangeError(`getRandomValues gives at most ${RANDOM_BYTES_MAX} bytes at once`);
    }
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(randomBytes(array.byteLength));
    return array;
  },

  randomUUID(): string {
    const bytes = randomBytes(16);
    bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  },
};

const line = (to: (text: string) => void) => (...values: unknown[]) => to(values.map(shown).join(" "));

const console = {
  debug: line(printLine),
  error: line(logLine),
  info: line(printLine),
  log: line(printLine),
  trace: line(logLine),
  warn: line(logLine),
};

if (ENGINE === "small") {
  const globals = { console, crypto, Promise: JobPromise, queueMicrotask: queueJob, TextDecoder, TextEncoder };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
  Math.random = randomNumber();
}

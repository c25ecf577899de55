// Mends the component of the small engine's tool: see `small.ts`. Nothing changes its length, so
// nothing has to be counted anew.

import { STAND_IN } from "./bundle.js";
import { Failure } from "./failure.js";

const WASI = "wasi:";
const CORE_VERSION = 1;

/** Sections of a component, by the binary format of the Component Model. */
const CORE_MODULE = 1;
const COMPONENT = 4;
const TYPE = 7;
/** Sections of a core module that hold names. */
const CORE_NAMES = [1, 2, 7];

/** `integer`, a type by its index, no refinement: a case of the variant `value`. */
const INTEGER_CASE = [7, ...Buffer.from("integer"), 1];
const S64 = 0x78;
/** The highest index that one byte holds, beside which are the codes of plain types. */
const INDEX_MAX = 0x3f;

/** The component with the contract's names, and 64-bit integers in its types. */
export function mended(component: Uint8Array, hasStorage: boolean): Uint8Array {
  const bytes = Buffer.from(component);
  const integers = mend(bytes, 0, bytes.length);
  if (hasStorage && integers === 0) {
    throw new Failure("the engine's tool wrote the type of SQL values in an unknown way: use its version of package.json");
  }
  return bytes;
}

function mend(bytes: Buffer, from: number, to: number): number {
  const isCore = bytes[from + 4] === CORE_VERSION && bytes[from + 6] === 0;
  let integers = 0;
  for (let at = from + 8; at < to; ) {
    const id = bytes[at++] as number;
    const [size, start] = leb128(bytes, at);
    const end = start + size;
    if (!isCore && (id === CORE_MODULE || id === COMPONENT)) {
      integers += mend(bytes, start, end);
    } else if (!isCore || CORE_NAMES.includes(id)) {
      rename(bytes, start, end);
      if (!isCore && id === TYPE) integers += widen(bytes, start, end);
    }
    at = end;
  }
  return integers;
}

function rename(bytes: Buffer, from: number, to: number): void {
  const section = bytes.subarray(from, to);
  for (let at = section.indexOf(STAND_IN); at >= 0; at = section.indexOf(STAND_IN, at)) {
    section.write(WASI, at, "latin1");
  }
}

/** Two words become one integer, which lies in memory in the same way. */
function widen(bytes: Buffer, from: number, to: number): number {
  const section = bytes.subarray(from, to);
  const wanted = Buffer.from(INTEGER_CASE);
  let found = 0;
  for (let at = section.indexOf(wanted); at >= 0; at = section.indexOf(wanted, at + 1)) {
    const type = at + wanted.length;
    if ((section[type] as number) > INDEX_MAX || section[type + 1] !== 0) continue;
    section[type] = S64;
    found++;
  }
  return found;
}

function leb128(bytes: Buffer, from: number): [value: number, next: number] {
  let value = 0;
  for (let at = from, shift = 0; ; at++, shift += 7) {
    const byte = bytes[at] as number;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return [value >>> 0, at + 1];
  }
}

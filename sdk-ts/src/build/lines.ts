// The table that says which line of the bundle came from where: a source map without columns.

import type { Lines } from "../stack.js";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Reads a source map (version 3). */
export function linesOf(map: string, name: (file: string) => string): Lines {
  const { sources, mappings } = JSON.parse(map) as { sources: string[]; mappings: string };
  const files = sources.map(name);
  const lines: Lines["lines"] = [];
  let [file, line] = [0, 0];
  let [fileBefore, lineBefore] = [0, 0];
  for (const text of mappings.split(";")) {
    let first: [number, number] | undefined;
    for (const segment of text.split(",")) {
      const fields = numbersOf(segment);
      if (fields.length < 4) continue;
      file += fields[1] as number;
      line += fields[2] as number;
      first ??= [file, line + 1];
    }
    lines.push(first ? [first[0] - fileBefore, first[1] - lineBefore] : 0);
    if (first) [fileBefore, lineBefore] = first;
  }
  return { files, lines };
}

/** Base64 VLQ: five bits a digit, the lowest first; the first bit of all is the sign. */
function numbersOf(segment: string): number[] {
  const numbers = [];
  let [n, shift] = [0, 0];
  for (const char of segment) {
    const digit = DIGITS.indexOf(char);
    n |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    numbers.push(n & 1 ? -(n >>> 1) : n >>> 1);
    [n, shift] = [0, 0];
  }
  return numbers;
}

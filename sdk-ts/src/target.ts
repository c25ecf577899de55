// A request's path and query, taken apart.

import { decodeLossy, encode } from "./utf8.js";

/** The path of `/items?limit=20` is `/items`. */
export function pathOf(target: string): string {
  const end = target.indexOf("?");
  return end < 0 ? target : target.slice(0, end);
}

export function queryOf(target: string): string {
  const end = target.indexOf("?");
  return end < 0 ? "" : target.slice(end + 1);
}

/** The decoded segments of a path. Empty ones are left out, so `/items/` is `/items`. */
export function segmentsOf(path: string): string[] {
  const segments = [];
  for (const segment of path.split("/")) {
    if (segment !== "") segments.push(percentDecode(segment));
  }
  return segments;
}

/** The decoded names and values of a query or of a form, in order. */
export function pairsOf(text: string): [string, string][] {
  const pairs: [string, string][] = [];
  for (const pair of text.split("&")) {
    if (pair === "") continue;
    const at = pair.indexOf("=");
    const [name, value] = at < 0 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + 1)];
    pairs.push([formDecode(name), formDecode(value)]);
  }
  return pairs;
}

function formDecode(text: string): string {
  return percentDecode(text.includes("+") ? text.replaceAll("+", " ") : text);
}

/**
 * Decodes `%20` and the like. A `%` that starts no escape stays as it is; bytes that are no UTF-8
 * become U+FFFD.
 */
export function percentDecode(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    // Not an error here, as it is to the engine.
  }
  const raw = encode(text);
  const bytes = new Uint8Array(raw.length);
  let length = 0;
  for (let at = 0; at < raw.length; at++) {
    let byte = raw[at] as number;
    if (byte === 0x25) {
      const escape = String.fromCharCode(raw[at + 1] ?? 0, raw[at + 2] ?? 0);
      if (/^[0-9a-f]{2}$/i.test(escape)) {
        byte = Number.parseInt(escape, 16);
        at += 2;
      }
    }
    bytes[length++] = byte;
  }
  return decodeLossy(bytes.subarray(0, length));
}

/** Unreserved characters as they are, every other byte as `%XX`. */
export function percentEncode(text: string): string {
  const rest = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(text.toWellFormed()).replace(/[!'()*]/g, rest);
}

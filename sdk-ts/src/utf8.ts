// UTF-8 in both directions. The small engine has no TextEncoder, and a loop over characters is
// fifty times slower there than what it does natively: base64, and the URI functions.

declare const TextEncoder: (new () => { encode(text: string): Uint8Array }) | undefined;
declare const TextDecoder:
  | (new (label: string, options: { fatal?: boolean; ignoreBOM?: boolean }) => {
      decode(bytes: Uint8Array): string;
    })
  | undefined;
declare function btoa(latin1: string): string;
declare function atob(base64: string): string;
declare function escape(text: string): string;
declare function unescape(text: string): string;

interface Base64 {
  fromBase64(text: string): Uint8Array;
}

/** A search, and not a match of the whole: that would keep a way back for each character. */
const NOT_ASCII = /[\x80-\uffff]/;

// Where the engine (or Node, in tests) has them. Those of the small engine are made of this module:
// they are not there yet when this runs.
const encoder = typeof TextEncoder === "undefined" ? undefined : new TextEncoder();
const native = typeof TextDecoder === "undefined" ? undefined : TextDecoder;
const strict = native && new native("utf-8", { fatal: true, ignoreBOM: true });
const lossy = native && new native("utf-8", { ignoreBOM: true });

/** UTF-8; a surrogate without its other half becomes U+FFFD. */
export function encode(text: string): Uint8Array {
  if (encoder) return encoder.encode(text);
  const latin1 = NOT_ASCII.test(text) ? unescape(encodeURIComponent(text.toWellFormed())) : text;
  return (Uint8Array as unknown as Base64).fromBase64(btoa(latin1));
}

/** The text, or none where it is not UTF-8. */
export function decode(bytes: Uint8Array): string | undefined {
  try {
    if (strict) return strict.decode(bytes);
    const latin1 = asLatin1(bytes);
    return NOT_ASCII.test(latin1) ? decodeURIComponent(escape(latin1)) : latin1;
  } catch {
    return undefined;
  }
}

/** What is no UTF-8 becomes U+FFFD. */
export function decodeLossy(bytes: Uint8Array): string {
  return lossy ? lossy.decode(bytes) : (decode(bytes) ?? decodeByHand(bytes));
}

function asLatin1(bytes: Uint8Array): string {
  return atob((bytes as unknown as { toBase64(): string }).toBase64());
}

/** As the Encoding standard has it: a wrong sequence is one U+FFFD up to where it goes wrong. */
export function decodeByHand(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at++] as number;
    if (first < 0x80) {
      text += String.fromCharCode(first);
      continue;
    }
    const more = first >= 0xc2 && first <= 0xdf ? 1 : first >= 0xe0 && first <= 0xef ? 2 : first >= 0xf0 && first <= 0xf4 ? 3 : 0;
    let low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
    let high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
    let point = first & (0x3f >> more);
    let left = more;
    while (left > 0) {
      const next = bytes[at] ?? 0;
      if (next < low || next > high) break;
      point = (point << 6) | (next & 0x3f);
      [low, high] = [0x80, 0xbf];
      at++;
      left--;
    }
    text += more > 0 && left === 0 ? String.fromCodePoint(point) : "\ufffd";
  }
  return text;
}

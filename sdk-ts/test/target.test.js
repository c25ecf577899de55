import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./sdk.js";

const { pairsOf, pathOf, percentDecode, percentEncode, queryOf, segmentsOf } = await load("target");
const { decode, decodeByHand, decodeLossy, encode } = await load("utf8");

test("the path ends where the query starts", () => {
  assert.equal(pathOf("/items?limit=20"), "/items");
  assert.equal(pathOf("/?a=b?c"), "/");
  assert.equal(pathOf(""), "");
  assert.equal(queryOf("/?a=b?c"), "a=b?c");
});

test("segments are decoded after the split, and empty ones do not count", () => {
  assert.deepEqual(segmentsOf("/items/a%2Fb/c%20d"), ["items", "a/b", "c d"]);
  assert.deepEqual(segmentsOf("//items//7/"), ["items", "7"]);
  assert.deepEqual(segmentsOf("/"), []);
});

test("query pairs keep order and repetition, and a plus is a space there only", () => {
  assert.deepEqual(pairsOf("tag=a&flag&tag=b=c&=x&&%6E=1"), [
    ["tag", "a"],
    ["flag", ""],
    ["tag", "b=c"],
    ["", "x"],
    ["n", "1"],
  ]);
  assert.deepEqual(pairsOf("q=a+b%2Bc"), [["q", "a b+c"]]);
  assert.deepEqual(segmentsOf("/a+b"), ["a+b"]);
});

test("broken escapes stay as they are, and bytes that are no UTF-8 become U+FFFD", () => {
  for (const [text, decoded] of [
    ["100%", "100%"],
    ["%zz%4", "%zz%4"],
    ["%%41", "%A"],
    ["%+1", "%+1"],
    ["%FFx", "\ufffdx"],
    ["é%", "é%"],
  ]) {
    assert.equal(percentDecode(text), decoded);
  }
});

test("what is encoded is decoded to the same", () => {
  assert.equal(percentEncode("café/ &%!'()*"), "caf%C3%A9%2F%20%26%25%21%27%28%29%2A");
  for (const text of ["", "a b", "%41", "日本/?#", "\r\n"]) {
    assert.equal(percentDecode(percentEncode(text)), text);
  }
  assert.equal(percentEncode("\ud800"), "%EF%BF%BD");
});

test("bytes decode by hand as the standard has it", () => {
  const standard = new TextDecoder("utf-8", { ignoreBOM: true });
  let seed = 1;
  const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648);
  const interesting = [0x00, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xa0, 0xed, 0x9f, 0xef, 0xf0, 0x90, 0xf4, 0x8f, 0xf5, 0xff];
  for (let round = 0; round < 20_000; round++) {
    const bytes = Uint8Array.from({ length: 1 + (random() % 8) }, () => interesting[random() % interesting.length]);
    assert.equal(decodeByHand(bytes), standard.decode(bytes), String(bytes));
  }
});

test("text goes to UTF-8 and back", () => {
  const text = "a é 日 🦀 \u0000";
  assert.equal(decode(encode(text)), text);
  assert.equal(decode(new Uint8Array([0xff])), undefined);
  assert.equal(decodeLossy(new Uint8Array([0x61, 0xff])), "a\ufffd");
});

import type { HostInteger } from "host:storage";

import { ENGINE } from "./engine.js";

const WORD = 0x1_0000_0000;
const I64_MIN = -(2n ** 63n);
const I64_MAX = 2n ** 63n - 1n;

export function fitsI64(n: bigint): boolean {
  return n >= I64_MIN && n <= I64_MAX;
}

/**
 * A safe integer, or a bigint of 64 bits, to the host. The small engine would carry 64 bits as a
 * float, which has 53; the build has it carry two words of 32 in their place.
 */
export function integerToHost(n: number | bigint): HostInteger {
  if (ENGINE === "web") return BigInt(n);
  if (typeof n === "number") return [n | 0, Math.floor(n / WORD)];
  return [Number(BigInt.asIntN(32, n)), Number(BigInt.asIntN(32, n >> 32n))];
}

/** A number where it is exact, else a bigint. */
export function integerFromHost(integer: HostInteger): number | bigint {
  if (typeof integer === "bigint") {
    const n = Number(integer);
    return Number.isSafeInteger(n) ? n : integer;
  }
  const [low, high] = integer;
  if (high === low >> 31) return low;
  if (high >= -0x20_0000 && high < 0x20_0000) {
    const n = high * WORD + (low >>> 0);
    if (Number.isSafeInteger(n)) return n;
  }
  return (BigInt(high) << 32n) | BigInt(low >>> 0);
}

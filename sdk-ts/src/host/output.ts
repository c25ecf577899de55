// Standard output and standard error: the log.

import type { OutputStream } from "host:io/streams";
import stderr from "host:stderr";
import stdout from "host:stdout";

import { encode } from "../utf8.js";
import { drop, ENGINE } from "./engine.js";

declare const console: { log(text: string): void; error(text: string): void };

/** A line on standard error, in one piece. */
export function logLine(line: string): void {
  if (ENGINE === "web") console.error(line);
  else write(stderr.getStderr(), line);
}

/** A line on standard output, in one piece. */
export function printLine(line: string): void {
  if (ENGINE === "web") console.log(line);
  else write(stdout.getStdout(), line);
}

function write(stream: OutputStream, line: string): void {
  let rest = encode(`${line}\n`);
  try {
    while (rest.length > 0) {
      const room = Number(stream.checkWrite());
      if (room === 0) break;
      stream.write(rest.subarray(0, room));
      rest = rest.subarray(room);
    }
  } catch {
    // The host has closed it: there is nobody to tell.
  }
  drop(stream);
}

// Places in the bundle, said as places in the author's files. A build adds the table: what an
// engine reports is all that is left of a mistake once it is in a log.

/** Files, and for each line of the bundle from the first: file and line, or nothing. */
export interface Lines {
  files: string[];
  /** File and line of the line of the bundle, as differences to those before; 0 stays. */
  lines: ([file: number, line: number] | 0)[];
}

declare const globalThis: { wasmkeepLines?: Lines };

const PLACE = /[^\s()@]*bundle\.js:(\d+)(?::\d+)?/g;

/** The stack, with places in the bundle replaced by those they came from. */
export function mapped(stack: string, table: Lines | undefined = globalThis.wasmkeepLines): string {
  if (!table) return stack;
  const [files, lines] = [table.files, table.lines];
  return stack.replace(PLACE, (place, line: string) => {
    const wanted = Number(line);
    let file = 0;
    let at = 0;
    for (let index = 0; index < Math.min(wanted, lines.length); index++) {
      const entry = lines[index];
      if (!entry) {
        if (index === wanted - 1) return place;
        continue;
      }
      file += entry[0];
      at += entry[1];
    }
    return wanted > lines.length ? place : `${files[file]}:${at}`;
  });
}

import http, { type Fields } from "host:http";

import { ActorError } from "../error.js";
import type { Headers } from "../headers.js";
import { drop } from "./engine.js";

/** The fields as the host takes them. */
export function fieldsOf(headers: Headers, of: string): Fields {
  const fields = [...headers];
  try {
    return http.Fields.fromList(fields);
  } catch {
    for (const field of fields) {
      try {
        drop(http.Fields.fromList([field]));
      } catch (thrown) {
        const why = (thrown as { payload?: { tag?: string } }).payload?.tag;
        const words = why === "forbidden" ? "it is the host's to set" : "its name or value is not valid";
        throw ActorError.internal(`${of} header ${JSON.stringify(field[0])}: ${words}`);
      }
    }
    throw ActorError.internal(`the host does not take the headers of this ${of}`);
  }
}

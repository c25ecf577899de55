import { type ConstraintKind, SqlError } from "../storage/error.js";
import { payloadOf } from "./engine.js";

type HostSqlError =
  | { tag: "constraint"; val: { kind: ConstraintKind; message: string } }
  | { tag: "invalid" | "quota-exceeded" | "not-allowed" | "internal"; val: string };

export function sqlErrorOf(thrown: unknown): SqlError {
  const error = payloadOf<HostSqlError>(thrown);
  return error.tag === "constraint"
    ? new SqlError("constraint", error.val.message, error.val.kind)
    : new SqlError(error.tag, error.val);
}

/** Which kind of constraint a write ran into. */
export type ConstraintKind = "unique" | "primary-key" | "foreign-key" | "not-null" | "check" | "other";

/**
 * What can be done about a failed storage call:
 *
 * | case | means |
 * |---|---|
 * | `invalid` | the statement is wrong as written: mend the code. Nothing was changed |
 * | `constraint` | the data broke a constraint, often the user's mistake. Nothing was changed |
 * | `quota-exceeded` | a limit named in the text was reached. The statement changed nothing |
 * | `not-allowed` | the host does not allow this statement, here or at all. It did not run |
 * | `internal` | the disk or the bucket failed: whether the write is durable is unknown |
 * | `mismatch` | a row does not fit the shape asked for: mend the code. The statement has run |
 */
export type SqlErrorCase =
  | "invalid"
  | "constraint"
  | "quota-exceeded"
  | "not-allowed"
  | "internal"
  | "mismatch";

const PREFIX: Record<SqlErrorCase, string> = {
  invalid: "invalid SQL: ",
  constraint: "",
  "quota-exceeded": "limit reached: ",
  "not-allowed": "not allowed: ",
  internal: "storage failed: ",
  mismatch: "",
};

/**
 * Why a storage call failed. Left to itself, a constraint answers 409, a quota 507, all else 500.
 */
export class SqlError extends Error {
  override readonly name = "SqlError";
  /** What can be done about it. */
  readonly case: SqlErrorCase;
  /** Of a `constraint`: which kind. */
  readonly kind: ConstraintKind | undefined;
  /** The host's or SQLite's words, without what kind of error it is. */
  readonly words: string;

  /** @internal */
  constructor(which: SqlErrorCase, words: string, kind?: ConstraintKind) {
    super(PREFIX[which] + words);
    this.case = which;
    this.words = words;
    this.kind = kind;
  }
}

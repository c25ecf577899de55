// Values of JSON with types: what is expected is said as data, checked, and gives the type.

interface Kinds {
  /** A number without a fraction, up to 2^53. */
  integer: number;
  real: number;
  text: string;
  boolean: boolean;
  /** Whatever JSON can say: unchecked. */
  any: unknown;
}

/** A value without parts; with `?` it may be null, or left out of an object: `integer`, `text?`. */
export type Kind = keyof Kinds | `${keyof Kinds}?`;

/** What a value is: a kind, a tuple in order, an object by names, or what {@link list} and the like make. */
export type Shape = Kind | Compound<unknown> | readonly Shape[] | { readonly [name: string]: Shape };

/** A shape that is made of others: see {@link list}, {@link map}, {@link optional}, {@link variants}. */
export class Compound<out T> {
  /** What its values are: there for the compiler alone. */
  declare readonly type: T;
  /** @internal */
  readonly read: (value: unknown, where: string) => T;

  /** @internal */
  constructor(read: (value: unknown, where: string) => T) {
    this.read = read;
  }
}

/** The type of a value of a shape. */
export type ValueOf<S extends Shape> =
  S extends Compound<infer T>
    ? T
    : S extends `${infer K extends keyof Kinds}?`
      ? Kinds[K] | null
      : S extends keyof Kinds
        ? Kinds[S]
        : S extends readonly Shape[]
          ? { -readonly [At in keyof S]: S[At] extends Shape ? ValueOf<S[At]> : never }
          : S extends { readonly [name: string]: Shape }
            ? { -readonly [Name in keyof S]: ValueOf<S[Name]> }
            : never;

/** As many as there are, all of one shape. */
export function list<const S extends Shape>(of: S): Compound<ValueOf<S>[]> {
  return new Compound((value, where) => {
    if (!Array.isArray(value)) throw misfit(where, "a list", value);
    return value.map((item, at) => read(of, item, `${where}[${at}]`)) as ValueOf<S>[];
  });
}

/** An object whose names are not known before. */
export function map<const S extends Shape>(of: S): Compound<Record<string, ValueOf<S>>> {
  return new Compound((value, where) => {
    const entries = Object.entries(objectOf(value, where));
    const values = entries.map(([name, item]) => [name, read(of, item, `${where}.${name}`)]);
    return Object.fromEntries(values) as Record<string, ValueOf<S>>;
  });
}

/** A value that may be null, or left out of an object. */
export function optional<const S extends Shape>(of: S): Compound<ValueOf<S> | null> {
  const made = new Compound((value, where) => ((value ?? null) === null ? null : read(of, value, where)));
  return made as Compound<ValueOf<S> | null>;
}

/** By name, what comes with it; null where nothing does. */
export type Variants = { readonly [name: string]: Shape | null };

type VariantOf<V extends Variants> = {
  [Name in keyof V]: V[Name] extends Shape ? { [N in Name]: ValueOf<V[Name]> } : Name;
}[keyof V];

/**
 * One of several, as serde writes an enum: `variants({ TooFew: { left: "integer" }, Closed: null })` is
 * `{ TooFew: { left: 3 } }` or `"Closed"`.
 */
export function variants<const V extends Variants>(of: V): Compound<VariantOf<V>> {
  const names = Object.keys(of).join(", ");
  return new Compound((value, where) => {
    if (typeof value === "string" && Object.hasOwn(of, value) && of[value] === null) return value as VariantOf<V>;
    const [entry, ...more] = typeof value === "object" && value !== null ? Object.entries(value) : [];
    const shape = entry && more.length === 0 && Object.hasOwn(of, entry[0]) ? of[entry[0]] : undefined;
    if (!entry || !shape) throw misfit(where, `one of ${names}`, value);
    return { [entry[0]]: read(shape, entry[1], `${where}.${entry[0]}`) } as VariantOf<V>;
  });
}

/** Reads a value of JSON; what does not fit throws a {@link Misfit}. Fields that are not asked for are left out. */
export function read(shape: Shape, value: unknown, where: string): unknown {
  if (typeof shape === "string") return readKind(shape, value, where);
  if (shape instanceof Compound) return shape.read(value, where);
  if (Array.isArray(shape)) {
    if (!Array.isArray(value) || value.length !== shape.length) {
      throw misfit(where, `a list of ${shape.length}`, value);
    }
    return shape.map((item: Shape, at) => read(item, value[at], `${where}[${at}]`));
  }
  const object = objectOf(value, where);
  const fields = Object.entries(shape as { [name: string]: Shape });
  return Object.fromEntries(fields.map(([name, of]) => [name, read(of, object[name], `${where}.${name}`)]));
}

function readKind(kind: Kind, value: unknown, where: string): unknown {
  const nullable = kind.endsWith("?");
  if (nullable && (value === null || value === undefined)) return null;
  const plain = nullable ? kind.slice(0, -1) : kind;
  switch (plain) {
    case "integer":
      if (Number.isSafeInteger(value)) return value;
      break;
    case "real":
      if (typeof value === "number") return value;
      break;
    case "text":
      if (typeof value === "string") return value;
      break;
    case "boolean":
      if (typeof value === "boolean") return value;
      break;
    case "any":
      if (value !== undefined) return value;
      break;
    default:
      throw new TypeError(`${JSON.stringify(kind)} is no kind of value: integer, real, text, boolean, any`);
  }
  throw misfit(where, plain, value);
}

function objectOf(value: unknown, where: string): Record<string, unknown> {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject) throw misfit(where, "an object", value);
  return value as Record<string, unknown>;
}

/** A value that is not of its shape. */
export class Misfit extends Error {
  override readonly name = "Misfit";
}

/** It says what is there without the data: this goes to a log. */
function misfit(where: string, expected: string, value: unknown): Misfit {
  const place = where === "" ? "" : `${where.replace(/^\./, "")}: `;
  return new Misfit(`${place}expected ${expected}, found ${found(value)}`);
}

function found(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object") return "an object";
  return `a ${typeof value}`;
}

// Routes as text: `PUT /items/:id`.

/** The names in a route: `"PUT /items/:id"` has `{ id: string }`; a last `*` is `rest`. */
export type RouteParams<R extends string> = string extends R
  ? Record<string, string>
  : R extends `${string} ${infer Path}`
    ? PathParams<Path>
    : never;

type PathParams<P extends string> = P extends `${infer Head}/${infer Tail}`
  ? PathParams<Head> & PathParams<Tail>
  : P extends `:${infer Name}`
    ? { [N in Name]: string }
    : P extends "*"
      ? { rest: string[] }
      : unknown;

type Params = Record<string, string | string[]>;

const parsed = new Map<string, { method: string; segments: string[]; open: boolean }>();

/** The names' values where the route fits, else none. */
export function matchRoute(route: string, method: string, segments: readonly string[]): Params | undefined {
  let want = parsed.get(route);
  if (!want) parsed.set(route, (want = parse(route)));
  // The body of an answer to HEAD is left out when it is sent.
  if (want.method !== "*" && want.method !== (method === "HEAD" ? "GET" : method)) return undefined;
  const fits = want.open ? segments.length >= want.segments.length : segments.length === want.segments.length;
  if (!fits) return undefined;
  const params: Params = {};
  for (const [at, segment] of want.segments.entries()) {
    const have = segments[at] as string;
    if (segment.startsWith(":")) params[segment.slice(1)] = have;
    else if (segment !== have) return undefined;
  }
  if (want.open) params["rest"] = segments.slice(want.segments.length);
  return params;
}

function parse(route: string): { method: string; segments: string[]; open: boolean } {
  const [method, path, ...more] = route.split(" ");
  if (!method || !path?.startsWith("/") || more.length > 0) {
    throw new TypeError(`${JSON.stringify(route)} is no route: write it like "GET /items/:id"`);
  }
  const segments = path.split("/").filter((segment) => segment !== "");
  const open = segments.at(-1) === "*";
  if (open) segments.pop();
  if (segments.includes("*")) {
    throw new TypeError(`${JSON.stringify(route)} is no route: * can only be its last segment`);
  }
  return { method: method.toUpperCase(), segments, open };
}

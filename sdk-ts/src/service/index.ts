// Calls between actors with types: `define` makes client and server of one description. On the wire it is
// what `service!` of the Rust SDK is: who asks may be in another language than who answers.

import { ask } from "../client.js";
import type { Answer } from "../actors.js";
import { ActorError } from "../error.js";
import { Failure } from "../failure.js";
import { isThenable } from "../promise.js";
import type { Request } from "../request.js";
import { Response, toJson } from "../response.js";
import { Misfit, read, type Shape, type ValueOf } from "./shape.js";

export { type Compound, type Kind, list, map, optional, type Shape, type ValueOf, type Variants, variants } from "./shape.js";

/** Says that the service's own error is in the body. */
const OWN_ERROR = 422;
/** As a method of Rust is called, and a trait. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** A method of a service: the arguments it takes, in order, and the value it gives; nothing where left out. */
export interface Method {
  readonly takes?: readonly Shape[];
  readonly gives?: Shape;
}

/** What a service is: see {@link define}. */
export interface Description {
  /** The errors its methods may answer with, beside those that all actors have. */
  readonly error?: Shape;
  readonly methods: { readonly [name: string]: Method };
}

type Arguments<M extends Method> = M["takes"] extends readonly Shape[] ? ValueOf<M["takes"]> : [];
type Value<M extends Method> = M["gives"] extends Shape ? ValueOf<M["gives"]> : void;
type OwnOf<D extends Description> = D["error"] extends Shape ? ValueOf<D["error"]> : never;
type ArgumentsOf<M extends Method> = Arguments<M> extends infer A extends unknown[] ? A : never;

type ClientFor<D extends Description> = { readonly [Name in keyof D["methods"]]: Ask<D["methods"][Name]> };
type ServerFor<D extends Description> = { [Name in keyof D["methods"]]: Handle<D["methods"][Name]> };

/** What asks, `ClientOf<typeof Stock>`: each method calls the actor, and returns its value or throws. */
export type ClientOf<S> = S extends Service<infer D> ? ClientFor<D> : never;

/** What answers, `ServerOf<typeof Stock>`: an actor with the methods of a service. They may be `async`. */
export type ServerOf<S> = S extends Service<infer D> ? ServerFor<D> : never;

type Ask<M extends Method> = (...args: ArgumentsOf<M>) => Value<M>;
type Handle<M extends Method> = (...args: ArgumentsOf<M>) => Value<M> | Promise<Value<M>>;

/** An error of a service's own. */
export interface OwnError<E> extends Error {
  /** What the service's description says it is. */
  readonly own: E;
}

/** Client and server of one description: made by {@link define}. */
export interface Service<D extends Description> {
  /**
   * The service's own error: `throw new Stock.Error({ TooFew: { left: 1 } })` in the callee is an
   * `error instanceof Stock.Error` with `error.own` in the caller.
   */
  readonly Error: new (own: OwnOf<D>) => OwnError<OwnOf<D>>;
  /**
   * A client of the actor `class/name`, the name as it is. What its methods throw is an error of the
   * service's own, or an `actors.Failure`: a refusal of the host, no answer, another error of the callee.
   */
  client(target: string): ClientFor<D>;
  /**
   * Answers a request that a client of this service sent: those below `/NAME/`; others with 404. What is no
   * argument of the method is answered with 400.
   */
  serve(request: Request, server: ServerFor<D>): Response | Promise<Response>;
}

/**
 * Describes a service once.
 *
 * ```ts
 * const Stock = service.define("Stock", {
 *   error: service.variants({ TooFew: { left: "integer" } }),
 *   methods: {
 *     put: { takes: ["integer"], gives: "integer" },
 *     take: { takes: ["integer", "text"] },
 *   },
 * });
 * ```
 *
 * **On the wire** `take(2, "ann")` is `POST /Stock/take` with the body `[2,"ann"]`, `null` for a method
 * without arguments, and its answer is 200 with the value as JSON. The service's own error is 422 with
 * `{"own": …}`, any other what it always is. An object as the one argument can get fields later, while one
 * more argument is another method to older callers.
 *
 * **Who may call** is as with any request: clients from outside, too, where the class lets them in. `caller`
 * of `@wasmkeep/sdk/front` says who it is, before `serve` takes the request.
 */
export function define<const D extends Description>(name: string, description: D): Service<D> {
  const { error, methods }: Description = description;
  for (const each of [name, ...Object.keys(methods)]) {
    if (!NAME.test(each)) throw new TypeError(`${JSON.stringify(each)} is no name of a service or a method`);
  }

  class ServiceError extends Error {
    override readonly name = `${name}.Error`;
    readonly own: unknown;

    constructor(own: unknown) {
      super(toJson(own));
      this.own = own;
    }
  }

  const client = (target: string) => {
    const asking = Object.entries(methods).map(([method, { gives }]) => {
      const path = `/${name}/${method}`;
      return [method, (...args: unknown[]) => {
        const json = args.length === 0 ? null : args;
        const answer = ask(target, { method: "POST", path, json });
        const own = error && ownErrorIn(answer, error);
        if (own) throw new ServiceError(own.own);
        return valueIn(answer.done(), gives);
      }];
    });
    return Object.fromEntries(asking);
  };

  const serve = (request: Request, server: Record<string, (...args: unknown[]) => unknown>) => {
    const [method, { takes = [] }] = methodOf(request, name, methods);
    const args = argumentsIn(request, takes);
    const failed = (thrown: unknown) => {
      if (!(thrown instanceof ServiceError)) throw thrown;
      return Response.json({ own: thrown.own }).status(OWN_ERROR);
    };
    try {
      const value = (server[method] as (...args: unknown[]) => unknown)(...args);
      return isThenable(value) ? Promise.resolve(value).then(answered, failed) : answered(value);
    } catch (thrown) {
      return failed(thrown);
    }
  };

  return { Error: ServiceError, client, serve } as unknown as Service<D>;
}

function answered(value: unknown): Response {
  return Response.json(value ?? null);
}

/** The method a request names. */
function methodOf(request: Request, name: string, methods: Description["methods"]): [string, Method] {
  const [of, method, ...more] = request.segments;
  if (of !== name || method === undefined || more.length > 0) {
    throw ActorError.notFound(`this is the service ${name}: POST /${name}/…`);
  }
  if (request.method !== "POST") throw ActorError.status(405, "a method of a service is called with POST");
  const found = Object.hasOwn(methods, method) ? methods[method] : undefined;
  if (!found) throw ActorError.notFound(`the service ${name} has no method ${JSON.stringify(method)}`);
  return [method, found];
}

function argumentsIn(request: Request, takes: readonly Shape[]): unknown[] {
  const sent = request.json();
  try {
    if (takes.length > 0) return read(takes, sent, "") as unknown[];
    if (sent !== null) throw new Misfit("null is the body for a method without arguments");
    return [];
  } catch (error) {
    throw error instanceof Misfit ? ActorError.badRequest(`the request body does not fit: ${error.message}`) : error;
  }
}

/** No refusal of the host is a 422 with such a body. A 422 of another kind is none either. */
function ownErrorIn(answer: Answer, error: Shape): { own: unknown } | undefined {
  if (answer.status !== OWN_ERROR) return undefined;
  try {
    return read({ own: error }, answer.json(), "") as { own: unknown };
  } catch (thrown) {
    if (thrown instanceof Misfit || thrown instanceof SyntaxError || thrown instanceof TypeError) return undefined;
    throw thrown;
  }
}

function valueIn(answer: Answer, gives: Shape | undefined): unknown {
  try {
    const value = answer.json();
    if (gives !== undefined) return read(gives, value, "");
  } catch (error) {
    throw Failure.unreadable(error instanceof Error ? error.message : String(error));
  }
  return undefined;
}

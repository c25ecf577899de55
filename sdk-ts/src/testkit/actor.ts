/** What came back. */
export class Answer {
  /** The HTTP status. */
  readonly status: number;
  /** The headers. */
  readonly headers: Headers;
  /** The whole body. */
  readonly body: Uint8Array;

  /** @internal */
  constructor(status: number, headers: Headers, body: Uint8Array) {
    this.status = status;
    this.headers = headers;
    this.body = body;
  }

  /** Itself; throws unless the status is 200 to 299. */
  ok(): this {
    if (this.status < 200 || this.status > 299) {
      throw new Error(`status ${this.status}: ${new TextDecoder().decode(this.body)}`);
    }
    return this;
  }

  /** The body as text; throws unless the status is 200 to 299. */
  text(): string {
    return new TextDecoder("utf-8", { fatal: true }).decode(this.ok().body);
  }

  /** The body read as JSON; throws unless the status is 200 to 299. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }
}

/** One actor, or the front: where requests go. */
export class Actor {
  readonly #base: () => string;

  /** @internal */
  constructor(base: () => string) {
    this.#base = base;
  }

  /** Sends a `GET` to a path below the actor's address: `/items?limit=20`. */
  async get(path: string): Promise<Answer> {
    return this.send("GET", path);
  }

  /** Sends a `POST` with this body. */
  async post(path: string, body: string | Uint8Array = ""): Promise<Answer> {
    return this.send("POST", path, { body });
  }

  /** Sends any request. No redirect is followed, no cookie kept. */
  async send(
    method: string,
    path: string,
    options: { headers?: Record<string, string>; body?: string | Uint8Array } = {},
  ): Promise<Answer> {
    // No body at all, rather than one of no bytes: a GET may have none.
    const body = options.body?.length ? options.body : null;
    const headers = options.headers ?? {};
    const answer = await fetch(this.#base() + path, { method, headers, body, redirect: "manual" } as RequestInit);
    return new Answer(answer.status, answer.headers, new Uint8Array(await answer.arrayBuffer()));
  }
}

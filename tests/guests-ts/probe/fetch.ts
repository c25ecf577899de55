// Requests to the outside: see tests/guests/probe/src/fetch.rs, which says the forms.

import { ActorError, outbound, type Request, Response } from "@wasmkeep/sdk";

const utf8 = new TextDecoder();

/** Passes method, headers named `x-…` and body on. */
export function one(request: Request): Response {
  return Response.json(told(sent({ ...asked(request, url(request)), body: request.bytes() })));
}

/** Passes the answer's body on, piece by piece. */
export function stream(request: Request): Response {
  const answer = outbound.fetch(url(request), asked(request, url(request)));
  return Response.stream((out) => {
    for (const piece of answer.body) {
      out.write(piece);
      out.flush();
    }
  });
}

/**
 * Sends all `?url=…`, each `?n=` times, and says what came of each in one line. Holds the answers
 * until their bodies end, and says so in another.
 */
export function hold(request: Request): Response {
  const times = request.queryInteger("n") ?? 1;
  const urls = request.queryPairs().filter(([name]) => name === "url");
  const fetches = urls.flatMap(([, url]) => Array.from({ length: times }, () => asked(request, url)));
  return Response.stream((out) => {
    const results = outbound.fetchAll(fetches);
    out.write(`${JSON.stringify(results.map(head))}\n`);
    out.flush();
    const answers = results.filter((result) => result instanceof outbound.Answer);
    out.write(`${JSON.stringify(answers.map((answer) => orMessage(() => answer.text())))}\n`);
  });
}

/** Uploads `?pieces=` of `?size=` bytes, as the server takes them. */
export function upload(request: Request): Response {
  const pieces = request.queryInteger("pieces") ?? 4;
  const piece = new Uint8Array(request.queryInteger("size") ?? 1000).fill(0x78);
  let written = 0;
  const { url: to, ...options } = asked(request, url(request));
  const write = (out: { write(piece: Uint8Array): void; flush(): void }) => {
    for (let at = 0; at < pieces; at++) {
      out.write(piece);
      written += piece.length;
    }
    out.flush();
  };
  const answer = orError(() => outbound.upload(to, write, options));
  return Response.json({ ...told(answer), written });
}

/** Keeps the answer in memory, unread, after the event. */
export function keep(request: Request, kept: outbound.Answer[]): Response {
  const answer = outbound.fetch(url(request), asked(request, url(request)));
  kept.push(answer);
  return Response.json({ status: answer.status, kept: kept.length });
}

/** Reads what an earlier event kept. */
export function readKept(kept: outbound.Answer[]): Response {
  return Response.json(kept.splice(0).map(told));
}

function url(request: Request): string {
  const url = request.query("url");
  if (url === undefined) throw ActorError.badRequest("say ?url=");
  return url;
}

function asked(request: Request, url: string): outbound.Fetch {
  const headers = Array.from(request.headers).filter(([name]) => name.startsWith("x-"));
  headers.push(["x-wasmkeep-evil", new Uint8Array([0x31])]);
  const timeoutMs = request.queryInteger("timeout_ms");
  return { url, method: request.method, headers, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
}

function sent(fetch: outbound.Fetch): outbound.Answer | outbound.OutboundError {
  return orError(() => outbound.fetch(fetch.url, fetch));
}

function orError(work: () => outbound.Answer): outbound.Answer | outbound.OutboundError {
  try {
    return work();
  } catch (error) {
    if (error instanceof outbound.OutboundError) return error;
    throw error;
  }
}

function head(result: outbound.Answer | outbound.OutboundError): object {
  if (result instanceof outbound.Answer) return { status: result.status };
  return { error: result.code ?? null, message: result.message };
}

function told(result: outbound.Answer | outbound.OutboundError): object {
  if (!(result instanceof outbound.Answer)) return head(result);
  const headers = Array.from(result.headers, ([name, value]) => [name, utf8.decode(value)]);
  try {
    return { ...head(result), headers, body: utf8.decode(result.bytes()) };
  } catch (error) {
    if (error instanceof outbound.OutboundError) return { ...head(result), headers, error: error.code };
    throw error;
  }
}

function orMessage(work: () => string): string {
  try {
    return work();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

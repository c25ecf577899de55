// Requests and responses in all their shapes.

import { ActorError, type Request, Response, sleep } from "@wasmkeep/sdk";

import { called, headersJson, pathToCall } from "./calling.js";
import { trap } from "./work.js";

export function answer(request: Request): Response | Promise<Response> {
  const [first] = request.segments;
  switch (first) {
    case "hello":
      return Response.text("hello");
    case "seen":
      return Response.text(request.pathAndQuery);
    case "echo":
      return echo(request);
    case "echo-body":
      return echoBody(request);
    case "status": {
      const code = request.queryInteger("code") ?? 200;
      return Response.text(`status ${code}`).status(code);
    }
    case "headers":
      return Response.text("headers")
        .header("x-probe", "kept")
        .header("x-wasmkeep-evil", "the host's to set")
        .appendHeader("set-cookie", "a=1")
        .appendHeader("set-cookie", "b=2; Path=/")
        .header("x-bytes", new Uint8Array([0xe9]));
    case "ignore-body":
      return Response.text("ignored");
    case "read-part":
      return new Response((request.body.chunk() ?? new Uint8Array(0)).subarray(0, 10));
    case "log": {
      const text = request.query("text") ?? "told to log";
      console.log(text);
      console.error(text);
      return Response.text("logged");
    }
    case "stream": {
      const chunks = request.queryInteger("chunks") ?? 3;
      const chunk = "x".repeat(request.queryInteger("size") ?? 5);
      const pause = request.queryInteger("ms") ?? 0;
      return Response.stream((out) => {
        for (let at = 0; at < chunks; at++) {
          if (pause > 0) sleep(pause);
          out.write(chunk);
        }
      });
    }
    case "stream-trap": {
      const ms = request.queryInteger("ms") ?? 0;
      return Response.stream((out) => {
        out.write("chunk");
        out.flush();
        sleep(ms);
        trap();
      });
    }
    case "stream-call": {
      const target = request.query("target") ?? "";
      const path = pathToCall(request);
      return Response.stream((out) => {
        out.write("chunk");
        out.flush();
        out.write(JSON.stringify(called(target, { path })));
      });
    }
    case "stream-error":
      return Response.stream((out) => {
        out.write("chunk");
        out.flush();
        throw ActorError.internal("told to fail");
      });
    case "stream-short":
      return Response.stream((out) => out.write("0123456789")).header("content-length", "100");
    default:
      return Response.notFound();
  }
}

function echo(request: Request): Response {
  const body = request.bytes();
  const at = request.pathAndQuery.indexOf("?");
  const utf8 = text(body);
  return Response.json({
    method: request.method,
    path: request.path,
    query: at < 0 ? null : request.pathAndQuery.slice(at + 1),
    headers: headersJson(request.headers),
    body_len: body.length,
    ...(utf8 === undefined ? {} : { body_utf8: utf8 }),
  });
}

function text(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function echoBody(request: Request): Response {
  if (request.query("stream") === undefined) return new Response(request.bytes());
  const { body } = request;
  return Response.stream((out) => {
    for (const piece of body) out.write(piece);
  });
}

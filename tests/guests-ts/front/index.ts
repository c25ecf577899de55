// A front that does what a request tells it to, as tests/guests/front does.

import { actors, type Request, Response, sleep } from "@wasmkeep/sdk";
import { caller, defineFront, handOff, host, scheme, unavailable, wantsWebsocket } from "@wasmkeep/sdk/front";

import * as calling from "../probe/calling.js";
import * as fetch from "../probe/fetch.js";
import { answer } from "../probe/http.js";
import * as work from "../probe/work.js";
import * as clients from "../sdk/clients.js";

let requests = 0;

export default defineFront((request) => {
  const [first, ...rest] = request.segments;
  if (first === undefined) return Response.html("<h1>front</h1>");
  if (rest.length > 0) return answer(request);
  switch (first) {
    case "who":
      return Response.json({
        host: host(request) ?? null,
        scheme: scheme(request),
        caller: calling.callerText(caller(request)),
        self: actors.self().toString(),
      });
    // How many requests this instance has had.
    case "count":
      return Response.text(String(++requests));
    case "env":
      return calling.env(request);
    case "call":
      return calling.call(request);
    case "call-many":
      return calling.callMany(request);
    // Passes an actor's answer on, as a front does.
    case "ask":
      return ask(request);
    case "burn":
      return work.burn(request);
    case "grow":
      return work.grow(request, []);
    case "loop":
      return work.spin();
    case "wait":
      return work.wait(request);
    case "trap":
      return work.trap();
    case "fetch":
      return fetch.one(request);
    case "fetch-hold":
      return fetch.hold(request);
    // Hands over what is asked for, also in ways that are none.
    case "hand-off":
      return handOver(request);
    case "wants":
      return Response.text(String(wantsWebsocket(request)));
    case "kv":
      return clients.runKv(request, request.query("store") ?? "");
    case "queue":
      return clients.runQueue(request, request.query("queue") ?? "");
    case "read":
      return Response.text(String(request.bytes().length));
    default:
      return answer(request);
  }
});

function ask(request: Request): Response {
  try {
    const answer = actors.call(request.query("target") ?? "", { path: calling.pathToCall(request) });
    return new Response(answer.bytes, { status: answer.status });
  } catch (error) {
    if (error instanceof actors.CallError) return unavailable(error);
    throw error;
  }
}

/**
 * `?target=CLASS/NAME&path=` hands over; `?x-wasmkeep-handoff-…=` sets those headers alone; with `ms`
 * the answer's body goes on for that long.
 */
function handOver(request: Request): Response {
  const target = request.query("target");
  const at = target?.indexOf("/") ?? -1;
  let response =
    target !== undefined && at >= 0
      ? handOff(target.slice(0, at), target.slice(at + 1), calling.pathToCall(request))
      : Response.text("handed over");
  const ms = request.queryInteger("ms");
  if (ms !== undefined) {
    const { headers } = response;
    response = Response.stream(
      (out) => {
        out.write("begun");
        out.flush();
        sleep(ms);
      },
      { headers },
    );
  }
  for (const [name, value] of request.queryPairs()) {
    if (name.startsWith("x-wasmkeep-handoff-")) response.header(name, value);
  }
  return response;
}

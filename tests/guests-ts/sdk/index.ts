// One actor that uses what the SDK has above the contract, as tests/guests/sdk does, whose list of requests
// holds here, but for `/Account/…` and `/ask`: typed calls are Rust's alone.

import { Actor, ActorError, alarms, type Request, Response, storage } from "@wasmkeep/sdk";

import * as clients from "./clients.js";
import * as steps from "./steps.js";
import * as timing from "./timing.js";

export default class Sdk extends Actor {
  override request(request: Request): Response | Promise<Response> {
    return request.route({
      "POST /migrate": () => steps.migrate(parameter(request, "steps")),
      "GET /rows": () => Response.json(storage.query(parameter(request, "sql")).rows),
      "POST /timer": () => timing.set(request, parameter(request, "key")),
      "DELETE /timer": () => timing.cancel(parameter(request, "key")),
      "GET /timers": () => timing.list(),
      "GET /ran": () => timing.ran(),
      "GET /alarm": () => Response.json(alarms.getMs() ?? null),
      "POST /kv": () => clients.runKv(request, parameter(request, "store")),
      "POST /queue": () => clients.runQueue(request, parameter(request, "queue")),
    });
  }

  override alarm(): void | Promise<void> {
    return timing.runDue();
  }
}

function parameter(request: Request, name: string): string {
  const value = request.query(name);
  if (value === undefined) throw ActorError.badRequest(`\`${name}\` is missing`);
  return value;
}

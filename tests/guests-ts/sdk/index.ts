// One actor that uses what the SDK has above the contract, as tests/guests/sdk does, whose list of requests
// holds here.

import { Actor, ActorError, alarms, type Request, Response, type service, storage } from "@wasmkeep/sdk";

import { trap } from "../probe/work.js";
import { Account, ask } from "./account.js";
import * as clients from "./clients.js";
import * as steps from "./steps.js";
import * as timing from "./timing.js";

export default class Sdk extends Actor implements service.ServerOf<typeof Account> {
  #balance = 0;

  override request(request: Request): Response | Promise<Response> {
    return request.route({
      "POST /migrate": () => steps.migrate(parameter(request, "steps")),
      "GET /rows": () => Response.json(storage.query(parameter(request, "sql")).rows),
      "POST /timer": () => timing.set(request, parameter(request, "key")),
      "DELETE /timer": () => timing.cancel(parameter(request, "key")),
      "GET /timers": () => timing.list(),
      "GET /ran": () => timing.ran(),
      "GET /alarm": () => Response.json(alarms.getMs() ?? null),
      "* /Account/*": () => Account.serve(request, this),
      "POST /ask": () => ask(request, parameter(request, "target"), parameter(request, "method")),
      "POST /kv": () => clients.runKv(request, parameter(request, "store")),
      "POST /queue": () => clients.runQueue(request, parameter(request, "queue")),
    });
  }

  override alarm(): void | Promise<void> {
    return timing.runDue();
  }

  async deposit(amount: number, note: string): Promise<{ balance: number; note: string }> {
    this.#balance += amount;
    return { balance: this.#balance, note };
  }

  withdraw(amount: number): void {
    if (amount > this.#balance) throw new Account.Error({ TooLittle: { left: this.#balance } });
    this.#balance -= amount;
  }

  balance(): number {
    return this.#balance;
  }

  taken(): void {
    throw ActorError.status(409, "taken");
  }

  trap(): void {
    trap();
  }
}

function parameter(request: Request, name: string): string {
  const value = request.query(name);
  if (value === undefined) throw ActorError.badRequest(`\`${name}\` is missing`);
  return value;
}

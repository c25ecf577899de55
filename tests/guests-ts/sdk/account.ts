// A service with an error of its own: see tests/guests/sdk/src/account.rs, which describes the same one.

import { ActorError, actors, type Request, Response, service } from "@wasmkeep/sdk";

/** An account in memory. */
export const Account = service.define("Account", {
  error: service.variants({ TooLittle: { left: "integer" } }),
  methods: {
    /** Puts something in. */
    deposit: { takes: ["integer", "text"], gives: { balance: "integer", note: "text" } },
    /** Takes something out. */
    withdraw: { takes: ["integer"] },
    /** How much there is. */
    balance: { gives: "integer" },
    /** Answers with an ordinary error. */
    taken: {},
    /** Traps. */
    trap: {},
  },
});

/** `{ok}`, `{own}` with the service's error, or `{failed, retry}`. */
export function ask(request: Request, target: string, method: string): Response {
  try {
    return Response.json({ ok: call(Account.client(target), method, request.queryInteger("n") ?? 0) ?? null });
  } catch (error) {
    if (error instanceof Account.Error) {
      const left: number = error.own.TooLittle.left;
      return Response.json({ own: { TooLittle: { left } } });
    }
    if (!(error instanceof actors.Failure)) throw error;
    return Response.json({ failed: error.message, retry: error.mayBeRetried() });
  }
}

function call(account: service.ClientOf<typeof Account>, method: string, n: number): unknown {
  switch (method) {
    case "deposit":
      return account.deposit(n, "from é");
    case "withdraw":
      return account.withdraw(n);
    case "balance":
      return account.balance();
    case "taken":
      return account.taken();
    case "trap":
      return account.trap();
    default:
      throw ActorError.badRequest(`no method ${JSON.stringify(method)}`);
  }
}

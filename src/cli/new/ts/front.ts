// The front: a page, and who may ask the counter. It keeps nothing; what lasts is the counter's.

import { actors, Response } from "@wasmkeep/sdk";
import { defineFront, unavailable } from "@wasmkeep/sdk/front";

export default defineFront((request) =>
  request.route({
    "GET /": () => {
      try {
        const answer = actors.call("counter/visits", { method: "POST", path: "/add?n=1" });
        const { total } = answer.ok().json() as { total: number };
        return Response.html(`<!doctype html><html lang="en"><meta charset="utf-8"><title>Visits</title>
<h1>Visit ${total}</h1></html>`);
      } catch (error) {
        if (error instanceof actors.CallError) return unavailable(error);
        throw error;
      }
    },
  }),
);

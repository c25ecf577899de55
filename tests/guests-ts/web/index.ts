// An actor for the engine `web`: it uses what the engine `small` has not, beside the SDK.
//
// | request | does |
// |---|---|
// | `GET /parts?of=URL` | takes a URL apart, with `URL`: host, and names of its query |
// | `POST /visits?wait=MS` | waits with `setTimeout`, then counts in the database: how many visits |
// | `GET /ask?target=` | calls another actor, and answers with what it answered |
// | `GET /shout` | a body through a `TransformStream` |
// | `GET /fetch?url=` | `fetch`es it: `{status, text}` |

import { Actor, ActorError, actors, type Request, Response, storage } from "@wasmkeep/sdk";

export default class Web extends Actor {
  override init(): void {
    storage.exec("CREATE TABLE IF NOT EXISTS visits (at REAL NOT NULL)");
  }

  override request(request: Request): Response | Promise<Response> {
    return request.route({
      "GET /parts": () => {
        const url = new URL(parameter(request, "of"));
        return Response.json({ host: url.host, names: [...url.searchParams.keys()] });
      },
      "POST /visits": async () => {
        const wait = request.queryInteger("wait") ?? 0;
        await new Promise((resolve) => setTimeout(resolve, wait));
        storage.execDurable("INSERT INTO visits VALUES (?)", [storage.real(Date.now())]);
        return Response.json(storage.queryOne("integer", "SELECT count(*) FROM visits"));
      },
      "GET /ask": () => Response.text(actors.call(parameter(request, "target")).ok().text()),
      "GET /shout": async () => Response.text(await shouted(["one ", "two"])),
      "GET /fetch": async () => {
        const answer = await fetch(parameter(request, "url"));
        return Response.json({ status: answer.status, text: await answer.text() });
      },
    });
  }
}

async function shouted(words: string[]): Promise<string> {
  const source = new ReadableStream<string>({
    start(controller) {
      for (const word of words) controller.enqueue(word);
      controller.close();
    },
  });
  const louder = new TransformStream<string, string>({
    transform: (word, controller) => controller.enqueue(word.toUpperCase()),
  });
  const reader = source.pipeThrough(louder).getReader();
  let all = "";
  for (let next = await reader.read(); !next.done; next = await reader.read()) all += next.value;
  return all;
}

function parameter(request: Request, name: string): string {
  const value = request.query(name);
  if (value === undefined) throw ActorError.badRequest(`\`${name}\` is missing`);
  return value;
}

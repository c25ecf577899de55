// The chat's front: its page, and the way into the rooms. It keeps nothing; what lasts is with the
// actors of class `room`.

import { ActorError, Response } from "@wasmkeep/sdk";
import { defineFront, handOff } from "@wasmkeep/sdk/front";

import { CSS, JS, PAGE } from "./page.js";

// Nothing but what this server gives: a message that smuggles a script in does nothing.
const POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; img-src 'self' data:";

export default defineFront((request) =>
  request.route({
    "GET /": () => Response.redirect("/rooms/lobby"),
    "GET /chat.css": () => file("text/css; charset=utf-8", CSS),
    "GET /chat.js": () => file("text/javascript; charset=utf-8", JS),
    "GET /rooms/:room": ({ room }) => {
      checked(room);
      return file("text/html; charset=utf-8", PAGE).header("content-security-policy", POLICY);
    },
    "GET /rooms/:room/socket": ({ room }) => {
      checked(room);
      const query = request.pathAndQuery.split("?").slice(1).join("?");
      return handOff("room", room, `/?${query}`);
    },
  }),
);

function file(contentType: string, text: string): Response {
  return Response.text(text).header("content-type", contentType).header("cache-control", "no-cache");
}

/** Each new name is a new actor with a database of its own, so a front takes only what it means to. */
function checked(room: string): void {
  if (!/^[\p{L}\p{N}-]{1,40}$/u.test(room)) {
    throw ActorError.notFound("a room's name has 1 to 40 letters, digits and dashes");
  }
}

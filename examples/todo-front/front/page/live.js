"use strict";

// The list is shown anew when it has changed somewhere else. What is being typed stays.
function listen(wait) {
  const url = new URL("/live", location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url);
  socket.addEventListener("open", () => {
    wait = 500;
  });
  socket.addEventListener("message", async () => {
    const answer = await fetch("/");
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const list = fresh.querySelector("ul");
    if (list) document.querySelector("ul").replaceWith(list);
  });
  socket.addEventListener("close", () => setTimeout(listen, wait, Math.min(2 * wait, 30_000)));
}

listen(500);

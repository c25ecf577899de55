"use strict";

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 10_000;
const SHOWN_MAX = 500;

const element = (id) => document.getElementById(id);
const room = decodeURIComponent(location.pathname.split("/")[2]);

let name = sessionStorage.getItem("name") ?? "";
/** The last message that was seen: a new connection asks for what came after it. */
let seen = 0;
let wait = FIRST_WAIT_MS;
let socket;

function start() {
  document.title = `${room} · Chat`;
  element("room").textContent = room;
  element("name").value = name;
  element("enter").addEventListener("submit", (event) => {
    event.preventDefault();
    name = element("name").value.trim();
    sessionStorage.setItem("name", name);
    comeIn();
  });
  element("say").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = element("text").value;
    if (socket?.readyState !== WebSocket.OPEN) {
      refused("Not connected: the message is still here, send it again in a moment.");
      return;
    }
    socket.send(JSON.stringify({ text }));
    element("text").value = "";
    refused("");
  });
  element("other").addEventListener("submit", (event) => {
    event.preventDefault();
    location.assign(`/rooms/${encodeURIComponent(element("other-room").value.trim())}`);
  });
  if (name) {
    comeIn();
  } else {
    element("enter").hidden = false;
    element("name").focus();
  }
}

function comeIn() {
  element("enter").hidden = true;
  element("inside").hidden = false;
  element("text").focus();
  connect();
}

function connect() {
  state("Connecting…");
  const query = new URLSearchParams({ name, after: String(seen) });
  const url = new URL(`/rooms/${encodeURIComponent(room)}/socket?${query}`, location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(url);
  socket.addEventListener("message", (event) => hear(JSON.parse(event.data)));
  // Also when it never opened. Who comes back asks for what they missed.
  socket.addEventListener("close", () => {
    state(`Not connected; next try in ${Math.ceil(wait / 1000)} s`);
    setTimeout(connect, wait * (0.5 + Math.random() / 2));
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  });
}

function hear(news) {
  switch (news.type) {
    case "welcome":
      wait = FIRST_WAIT_MS;
      state("Connected");
      news.messages.forEach(show);
      people(news.people);
      break;
    case "joined":
      note(`${news.who} came in`);
      people(news.people);
      break;
    case "left":
      note(`${news.who} left`);
      people(news.people);
      break;
    case "message":
      show(news);
      refused("");
      break;
    case "refused":
      refused(news.why);
      break;
  }
}

function show({ id, at, who, text }) {
  if (id <= seen) return;
  seen = id;
  const time = document.createElement("time");
  time.dateTime = new Date(at).toISOString();
  time.textContent = new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const author = document.createElement("strong");
  author.textContent = who;
  append(who === name ? "own" : "", time, author, ` ${text}`);
}

function note(text) {
  append("news", text);
}

function append(kind, ...content) {
  const messages = element("messages");
  const atEnd = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 40;
  const item = document.createElement("li");
  item.className = kind;
  item.append(...content);
  messages.append(item);
  while (messages.childElementCount > SHOWN_MAX) messages.firstElementChild.remove();
  if (atEnd) messages.scrollTop = messages.scrollHeight;
}

function people(names) {
  element("people").replaceChildren(
    ...names.map((each) => {
      const item = document.createElement("li");
      item.textContent = each;
      return item;
    }),
  );
}

function state(text) {
  element("state").textContent = text;
}

function refused(text) {
  element("refused").textContent = text;
}

start();

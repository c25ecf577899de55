"use strict";

const BASE = "/_wasmkeep/console";
const VERSION = 1;
const WHICH = { tenant: "default", app: "default" };
const LISTED_MAX = 500;
const ROWS_MAX = 200;
const RECORDS_MAX = 500;
const LOOK_MS = 2000;
const LOOKS_KEPT = 150;

const element = (id) => document.getElementById(id);

/** Ends what the last view had running. */
let leaving = new AbortController();

function token() {
  return sessionStorage.getItem("token");
}

class Failed extends Error {}

/** Sends a command, and gives the lines of its answer as they come; a `failed` one is thrown. */
async function* ask(command, signal = leaving.signal) {
  const answer = await fetch(`${BASE}/command`, {
    method: "POST",
    headers: { authorization: `Bearer ${token()}`, "content-type": "application/json" },
    body: JSON.stringify({ version: VERSION, ...command }),
    signal,
  });
  if (answer.status === 401) {
    sessionStorage.removeItem("token");
    show();
    throw new Failed("the token is another one");
  }
  if (!answer.ok) throw new Failed(`${answer.status}: ${await answer.text()}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines.filter((line) => line !== "")) {
      const parsed = JSON.parse(line, exact);
      if (parsed.line === "failed") throw new Failed(parsed.message);
      yield parsed;
    }
  }
}

/** Numbers that JavaScript cannot hold stay as they are written. */
function exact(_key, value, context) {
  if (typeof value === "number" && !Number.isSafeInteger(value) && context?.source) {
    return Number.isInteger(value) ? context.source : value;
  }
  return value;
}

function make(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...content);
  return made;
}

function bytes(count) {
  if (count < 1024) return `${count} B`;
  let unit = -1;
  while (count >= 1024 && unit < 4) {
    count /= 1024;
    unit += 1;
  }
  return `${count.toFixed(1)} ${["KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

function count(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function time(ms) {
  return ms === null || ms === undefined ? "–" : new Date(ms).toISOString().replace("T", " ").slice(0, 19);
}

function fill(list, pairs) {
  list.replaceChildren(
    ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
  );
}

// Views.

function show() {
  leaving.abort();
  leaving = new AbortController();
  element("state").textContent = "";
  const given = location.hash.slice(1);
  if (given.startsWith("token=")) {
    sessionStorage.setItem("token", given.slice("token=".length));
    history.replaceState(null, "", `${BASE}#/actors`);
  }
  const [view, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const name = token() === null ? "sign-in" : ["actor", "node", "tail"].includes(view) ? view : "actors";
  for (const link of document.querySelectorAll("nav a")) {
    const own = link.id === `to-${name === "actor" ? "actors" : name}`;
    own ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  const main = element("view");
  main.replaceChildren(element(name).content.cloneNode(true));
  main.focus();
  const views = { "sign-in": signIn, actors, actor, node, tail };
  views[name](...rest).catch(tell);
}

function tell(error) {
  if (error.name === "AbortError") return;
  element("state").textContent = error instanceof Failed ? error.message : `not connected: ${error.message}`;
}

async function signIn() {
  const form = document.querySelector("main form");
  element("token").focus();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", element("token").value.trim());
    show();
  });
}

async function actors() {
  const form = element("filter");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list(new FormData(form)).catch(tell);
  });
  await list(new FormData(form));
}

async function list(filter) {
  const rows = [];
  let cut = false;
  const command = {
    command: "list",
    ...WHICH,
    class: filter.get("class") || null,
    prefix: filter.get("prefix") || null,
    min_bytes: 0,
    with_alarm: filter.get("alarm") !== null,
    limit: LISTED_MAX,
  };
  for await (const line of ask(command)) {
    if (line.line === "actor") rows.push(row(line));
    if (line.line === "end") cut = line.cut;
  }
  element("rows").replaceChildren(...rows);
  const most = cut ? `The first ${rows.length}; there are more: narrow it down.` : "";
  element("more").textContent = rows.length === 0 ? "There are none." : most || `${rows.length} in all.`;
}

function row(actor) {
  const place = actor.resident ? "memory" : actor.has_file ? "file" : "index";
  const size = (count) => (actor.has_file ? bytes(count) : "–");
  const name =
    actor.name === null
      ? `${actor.class}/(name unreadable) ${actor.stem}`
      : make("a", { href: link(actor.class, actor.name) }, `${actor.class}/${actor.name}`);
  return make(
    "tr",
    {},
    make("th", { scope: "row" }, name),
    make("td", { class: "number" }, size(actor.database_bytes)),
    make("td", { class: "number" }, size(actor.wal_bytes)),
    make("td", {}, place),
    make("td", { class: "number" }, String(actor.sockets ?? "–")),
    make("td", {}, time(actor.alarm_ms)),
  );
}

function link(className, name) {
  return `#/actor/${encodeURIComponent(className)}/${encodeURIComponent(name)}`;
}

async function actor(className, name) {
  const which = { ...WHICH, class: className, name };
  element("title").textContent = `${className}/${name}`;
  element("sql").addEventListener("submit", (event) => {
    event.preventDefault();
    run(which, element("statement").value).catch(sqlFailed);
  });
  follow({ class: className, name }).catch(tell);
  await Promise.all([facts(which), tables(which)]);
}

async function facts(which) {
  for await (const line of ask({ command: "show", ...which })) {
    if (line.line !== "facts") continue;
    const node = line.node;
    const size = `${bytes(line.database_bytes)}, and ${bytes(line.wal_bytes)} of log`;
    const place = node.resident ? (node.is_busy ? "in memory, an event runs" : "in memory") : "asleep";
    fill(element("facts"), [
      ["Exists", line.exists ? "yes" : "no"],
      ["Now", `${place}; ${node.queued} waiting; ${count(node.sockets, "WebSocket")}`],
      ["Database", line.file ? size : "none"],
      ["Alarm", line.alarm_ms === null ? "none" : `${time(line.alarm_ms)} UTC` + (line.failed_attempts ? `, ${count(line.failed_attempts, "attempt")} failed` : "")],
      ["Component", line.initialised_by?.slice(0, 12) ?? "–"],
      ["Next event", line.next_event.join("; then ")],
      ...(line.unread ? [["Not read", line.unread.message]] : []),
    ]);
  }
}

async function tables(which) {
  const sql =
    "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE '\\_wk\\_%' ESCAPE '\\' " +
    "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
  const names = [];
  try {
    for await (const line of ask({ command: "sql", ...which, sql, params: [], rows_max: ROWS_MAX })) {
      if (line.line === "row") names.push(line.row[0]);
    }
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    element("tables").textContent = error.message;
    return;
  }
  const buttons = names.map((table) => {
    const button = make("button", { type: "button" }, table);
    button.addEventListener("click", () => {
      const statement = `SELECT * FROM "${table.replaceAll('"', '""')}" LIMIT 100`;
      element("statement").value = statement;
      run(which, statement).catch(sqlFailed);
    });
    return button;
  });
  element("tables").replaceChildren(...(buttons.length ? buttons : ["It has no tables."]));
}

async function run(which, sql) {
  element("sql-error").textContent = "";
  element("took").textContent = "";
  element("result").replaceChildren();
  const began = performance.now();
  const result = element("result");
  const body = make("tbody");
  let cut = false;
  for await (const line of ask({ command: "sql", ...which, sql, params: [], rows_max: ROWS_MAX })) {
    if (line.line === "columns") {
      const heads = line.columns.map((column) => make("th", { scope: "col" }, column));
      result.replaceChildren(make("thead", {}, make("tr", {}, ...heads)), body);
    }
    if (line.line === "row") body.append(make("tr", {}, ...line.row.map(cell)));
    if (line.line === "end") cut = line.cut;
  }
  const took = `${Math.round(performance.now() - began)} ms`;
  element("took").textContent = `${count(body.childElementCount, "row")}${cut ? ", and there are more" : ""}, ${took}`;
}

function cell(value) {
  if (value === null) return make("td", { class: "null" }, "null");
  if (typeof value === "object") {
    return make("td", {}, "blob" in value ? `x'${value.blob}'` : value.real);
  }
  const text = String(value);
  return make("td", { class: typeof value === "number" ? "number" : undefined, title: text }, text);
}

function sqlFailed(error) {
  if (error instanceof Failed) element("sql-error").textContent = error.message;
  else tell(error);
}

async function tail() {
  await follow({ class: null, name: null });
}

async function follow(which) {
  const command = { command: "tail", ...WHICH, ...which, kinds: [], query: false };
  for await (const line of ask(command)) {
    if (line.line === "record") record(line);
    if (line.line === "gap") append(`… ${line.lost} records are missing here`, "bad");
    if (line.line === "stopped") append("the node stopped", "bad");
  }
}

function record(told) {
  const { at_ms, kind, class: className, name, ...fields } = told;
  const words = [new Date(at_ms).toISOString().slice(11, 23), kind.padEnd(14), `${className}/${name}`];
  if (fields.method) words.push(`${fields.method} ${fields.path}`);
  if (fields.target) words.push(`to ${fields.target}`);
  if (fields.text !== undefined && fields.text !== null) words.push(`${fields.stream}: ${fields.text}`);
  if (fields.status) words.push(String(fields.status));
  if (fields.outcome) words.push(fields.outcome + (fields.reason ? ` (${fields.reason})` : ""));
  if (fields.cause) words.push(fields.cause);
  if (fields.attempt) words.push(`attempt ${fields.attempt}`);
  if (fields.dropped) words.push(`${fields.dropped} lines dropped`);
  if (fields.took_ms !== undefined && fields.took_ms !== null) words.push(`${fields.took_ms.toFixed(1)} ms`);
  const bad = fields.outcome === "failed" || fields.outcome === "refused";
  append(words.join("  "), bad ? "bad" : "");
}

function append(text, kind) {
  const records = element("records");
  if (records === null) return;
  const atEnd = records.scrollHeight - records.scrollTop - records.clientHeight < 40;
  records.append(make("li", { class: kind || undefined }, text));
  while (records.childElementCount > RECORDS_MAX) records.firstElementChild.remove();
  if (atEnd) records.scrollTop = records.scrollHeight;
}

// The node: what its metrics say, looked at again and again.

const CHARTS = [
  ["Events a second", (now, before, s) => rate("wasmkeep_events_total", now, before, s)],
  ["Events that failed a second", (now, before, s) => rate("wasmkeep_events_total", now, before, s, 'outcome="failed"')],
  ["Mean time of an event, ms", (now, before) => mean("wasmkeep_event_seconds", now, before) * 1000],
  ["Actors in memory", (now) => sum("wasmkeep_resident_actors", now)],
  ["WebSockets", (now) => sum("wasmkeep_sockets", now)],
  ["Mean time of a durable write, ms", (now, before) => mean("wasmkeep_durable_write_seconds", now, before) * 1000],
];

async function node() {
  const signal = leaving.signal;
  const charts = CHARTS.map(([title, value]) => ({ value, values: [], ...chart(title) }));
  element("charts").replaceChildren(...charts.map((each) => each.figure));
  let before = null;
  while (!signal.aborted) {
    const began = performance.now();
    const [metrics, ready] = await Promise.all([
      fetch("/_wasmkeep/metrics", { signal }).then((answer) => answer.text()),
      fetch("/_wasmkeep/ready", { signal }),
    ]);
    const now = { at: began, samples: parse(metrics) };
    const takes = `${Math.round(performance.now() - began)} ms`;
    fill(element("health"), [
      ["Takes traffic", ready.ok ? "yes" : "no: it starts or stops"],
      ["Answers within", takes],
      ["Refused so far", String(sum("wasmkeep_refusals_total", now))],
    ]);
    for (const each of charts) {
      const seconds = before === null ? 0 : (now.at - before.at) / 1000;
      const value = each.value(now, before, seconds);
      if (Number.isFinite(value)) each.values.push(value);
      each.values.splice(0, each.values.length - LOOKS_KEPT);
      draw(each);
    }
    before = now;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** The samples of Prometheus' text format: `[name, labels, value]`. */
function parse(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match) samples.push([match[1], match[2] ?? "", Number(match[3])]);
  }
  return samples;
}

function sum(name, look, label = "") {
  const named = look.samples.filter(([have, labels]) => have === name && labels.includes(label));
  return named.reduce((total, [, , value]) => total + value, 0);
}

function rate(name, now, before, seconds, label = "") {
  if (before === null) return NaN;
  return Math.max(0, sum(name, now, label) - sum(name, before, label)) / seconds;
}

function mean(name, now, before) {
  if (before === null) return NaN;
  const count = sum(`${name}_count`, now) - sum(`${name}_count`, before);
  return count > 0 ? (sum(`${name}_sum`, now) - sum(`${name}_sum`, before)) / count : 0;
}

function chart(title) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${LOOKS_KEPT - 1} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.append(path);
  const latest = make("strong");
  const figure = make("figure", {}, make("figcaption", {}, make("span", {}, title), latest), svg);
  return { title, figure, svg, path, latest };
}

function draw({ title, values, svg, path, latest }) {
  if (values.length === 0) return;
  const number = (value) => (value >= 100 ? Math.round(value).toString() : value.toFixed(value < 10 ? 2 : 1));
  const most = Math.max(...values, 1e-9);
  const from = LOOKS_KEPT - values.length;
  const points = values.map((value, at) => `${from + at},${95 - (90 * value) / most}`);
  path.setAttribute("d", `M${points.join("L")}`);
  latest.textContent = number(values.at(-1));
  const seconds = (values.length * LOOK_MS) / 1000;
  svg.setAttribute("aria-label", `${title}: now ${number(values.at(-1))}, at most ${number(most)} in ${seconds} s`);
}

addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  element("view").focus();
});
show();

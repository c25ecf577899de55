// `POST /sql`: what one event does, as data: see tests/guests/probe/src/steps.rs, which says the forms.

import { ActorError, actors, alarms, type Request, Response, sleep, storage } from "@wasmkeep/sdk";

import { answered, called } from "./calling.js";
import { addressJson, type CallStep, callOf, pending } from "./host.js";
import * as sql from "./sql.js";
import { trap } from "./work.js";

interface Step {
  op: string;
  sql?: string;
  params?: Parameters<typeof sql.value>[0][];
  calls?: CallStep[];
  in?: number;
  at?: number;
  ms?: number;
  text?: string;
  attempts?: number;
  runs?: number;
}

export function run(request: Request): Response {
  return Response.json(stepsOf(request.text()).map(step));
}

/** Keeps the body for the alarms to come, and forgets what those before did. */
export function keep(request: Request): Response {
  const script = request.text();
  stepsOf(script);
  storage.exec("CREATE TABLE IF NOT EXISTS on_alarm (id INTEGER PRIMARY KEY, script)");
  storage.exec("REPLACE INTO on_alarm VALUES (1, ?)", [script]);
  storage.exec("DROP TABLE IF EXISTS alarm_log");
  storage.exec("DROP TABLE IF EXISTS alarm_said");
  return Response.text("kept");
}

/** The script kept for `on-alarm`, if there is one. What it answers is kept in `alarm_said`. */
export function alarmScript(): void {
  storage.exec("CREATE TABLE IF NOT EXISTS on_alarm (id INTEGER PRIMARY KEY, script)");
  const script = storage.queryOptional("text", "SELECT script FROM on_alarm");
  if (script === undefined) return;
  const runs = storage.queryOne("integer", "SELECT count(*) FROM alarm_log");
  const answers: unknown[] = [];
  for (const one of stepsOf(script)) {
    const late = one.attempts !== undefined && alarms.attempt() > one.attempts;
    if (!late && (one.runs === undefined || runs <= one.runs)) answers.push(step(one));
  }
  storage.exec("CREATE TABLE IF NOT EXISTS alarm_said (answers)");
  storage.exec("INSERT INTO alarm_said VALUES (?)", [JSON.stringify(answers)]);
}

/** Integers that a number does not hold are set apart before they are read. */
const LONG_INTEGER = /([[,:]\s*)(-?\d{16,})(?=\s*[,\]}])/g;

function stepsOf(text: string): Step[] {
  return (JSON.parse(text.replace(LONG_INTEGER, '$1{"integer":"$2"}')) as { steps: Step[] }).steps;
}

function step(step: Step): unknown {
  const text = step.sql ?? "";
  const params = (step.params ?? []).map(sql.value);
  const calls = (step.calls ?? []).map(callOf);
  switch (step.op) {
    case "exec":
      return sql.changed(() => storage.exec(text, params));
    case "exec-durable":
      return sql.changed(() => storage.execDurable(text, params));
    case "query":
      return sql.queried(() => storage.query(text, params));
    case "delete-self":
      storage.deleteSelf();
      return { deleted: true };
    case "delete-self-durable":
      return sql.orFailed(() => {
        storage.deleteSelfDurable();
        return { deleted: true };
      });
    case "set-alarm":
      return pending(() => {
        if (step.in !== undefined) alarms.setAfter(step.in);
        else if (step.at !== undefined) alarms.setAt(step.at);
        else throw ActorError.badRequest("say in or at");
      });
    case "clear-alarm":
      return pending(alarms.clear);
    case "get-alarm":
      return pending(() => {});
    case "call": {
      const [call] = calls;
      if (!call) throw ActorError.badRequest("say whom to call");
      return called(call.target, call);
    }
    case "call-many":
      return actors.callMany(calls).map(answered);
    case "address":
      return addressJson();
    case "wait":
      sleep(step.ms ?? 0);
      return { waited: step.ms };
    case "log":
      console.log(step.text ?? "");
      return { logged: step.text };
    case "trap":
      return trap();
    case "fail":
      throw ActorError.internal("told to fail");
    default:
      throw ActorError.badRequest(`there is no op ${step.op}`);
  }
}

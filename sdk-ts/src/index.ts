/** Write WasmKeep actors in TypeScript: see the README. */

export { Actor } from "./actor.js";
export * as actors from "./actors.js";
export type { Address, Answer, Call, CallError, CallErrorCase, CallOptions } from "./actors.js";
export * as alarms from "./alarms.js";
export * as env from "./env.js";
export { ActorError } from "./error.js";
export { Headers, type HeadersInit, type HeaderValue } from "./headers.js";
export { type Body, type BodyWriter, ClosedError } from "./host/body.js";
export * as kv from "./kv.js";
export * as outbound from "./outbound/index.js";
export * as queue from "./queue.js";
export { Form, Request, type RouteHandler } from "./request.js";
export { Response, type ResponseInit, type WriteBody } from "./response.js";
export type { RouteParams } from "./route.js";
export * as storage from "./storage/index.js";
export { SqlError } from "./storage/error.js";
export * as service from "./service/index.js";
export { sleep } from "./time.js";
export * as timers from "./timers.js";
export type { Timer } from "./timers.js";
export * as websockets from "./websockets.js";
export type { Message, OpenRequest, Socket } from "./websockets.js";
export type { Caller } from "./caller.js";

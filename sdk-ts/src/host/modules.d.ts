// The contract as the engines give it to JavaScript. `wasmkeep-ts build` resolves these names to
// what the chosen engine calls them. Where two shapes stand, the first is the small engine's.

type U64 = number | bigint;

declare module "host:storage" {
  export type HostInteger = readonly [low: number, high: number] | bigint;
  export type HostValue =
    | { tag: "null" }
    | { tag: "integer"; val: HostInteger }
    | { tag: "real"; val: number }
    | { tag: "text"; val: string }
    | { tag: "blob"; val: Uint8Array };
  export interface HostRows {
    columns: string[];
    rows: HostValue[][];
  }
  const storage: {
    exec(sql: string, params: HostValue[]): U64;
    execDurable(sql: string, params: HostValue[]): U64;
    query(sql: string, params: HostValue[]): HostRows;
    deleteSelf(): void;
    deleteSelfDurable(): void;
  };
  export default storage;
}

declare module "host:alarms" {
  const alarms: {
    setAlarm(at: U64): void;
    getAlarm(): U64 | null | undefined;
    clearAlarm(): void;
    attempt(): number;
  };
  export default alarms;
}

declare module "host:actors" {
  export type HostHeader = [name: string, value: Uint8Array];
  export interface HostRequest {
    method: string;
    path: string;
    headers: HostHeader[];
    body: Uint8Array;
  }
  export interface HostResponse {
    status: number;
    headers: HostHeader[];
    body: Uint8Array;
  }
  export type HostCallError =
    | { tag: "timeout" | "reentrant" | "invalid-address" }
    | { tag: "failed"; val: string };
  const actors: {
    selfAddress(): { tenant: string; class: string; name: string };
    call(target: string, request: HostRequest): HostResponse;
  };
  export default actors;
}

declare module "host:calls" {
  import type { HostCallError, HostRequest, HostResponse } from "host:actors";
  const calls: {
    callMany(
      calls: [target: string, request: HostRequest][],
    ): ({ tag: "ok"; val: HostResponse } | { tag: "err"; val: HostCallError })[];
  };
  export default calls;
}

declare module "host:websockets" {
  export type HostMessage = { tag: "text"; val: string } | { tag: "binary"; val: Uint8Array };
  const websockets: {
    connections(): Iterable<U64>;
    send(socket: U64, message: HostMessage): void;
    close(socket: U64, code: number, reason: string): void;
    attachment(socket: U64): Uint8Array | null | undefined;
    setAttachment(socket: U64, bytes: Uint8Array): void;
  };
  export default websockets;
}

declare module "host:env" {
  const env: { get(name: string): string | null | undefined };
  export default env;
}

declare module "host:io/poll" {
  export interface Pollable {
    ready(): boolean;
    block(): void;
  }
  const poll: { poll(pollables: Pollable[]): Iterable<number> };
  export default poll;
}

declare module "host:io/streams" {
  import type { Pollable } from "host:io/poll";
  export interface IoError {
    toDebugString(): string;
  }
  export type StreamError = { tag: "last-operation-failed"; val: IoError } | { tag: "closed" };
  export interface InputStream {
    read(length: U64): Uint8Array;
    blockingRead(length: U64): Uint8Array;
    subscribe(): Pollable;
  }
  export interface OutputStream {
    checkWrite(): U64;
    write(bytes: Uint8Array): void;
    blockingFlush(): void;
    subscribe(): Pollable;
  }
}

declare module "host:clock" {
  import type { Pollable } from "host:io/poll";
  const clock: { subscribeDuration(nanoseconds: U64): Pollable };
  export default clock;
}

declare module "host:random" {
  const random: { getRandomBytes(length: U64): Uint8Array };
  export default random;
}

declare module "host:stdout" {
  import type { OutputStream } from "host:io/streams";
  const stdout: { getStdout(): OutputStream };
  export default stdout;
}

declare module "host:stderr" {
  import type { OutputStream } from "host:io/streams";
  const stderr: { getStderr(): OutputStream };
  export default stderr;
}

declare module "host:http" {
  import type { HostHeader } from "host:actors";
  import type { Pollable } from "host:io/poll";
  import type { InputStream, IoError, OutputStream } from "host:io/streams";
  export interface Fields {
    append(name: string, value: Uint8Array): void;
    entries(): HostHeader[];
  }
  export type Method = { tag: string; val?: string };
  export type Scheme = { tag: "HTTP" | "HTTPS" } | { tag: "other"; val: string };
  export type ErrorCode = { tag: string; val?: unknown };
  export interface IncomingBody {
    stream(): InputStream;
  }
  export interface IncomingRequest {
    method(): Method;
    pathWithQuery(): string | null | undefined;
    authority(): string | null | undefined;
    headers(): Fields;
    consume(): IncomingBody;
  }
  export interface IncomingResponse {
    status(): number;
    headers(): Fields;
    consume(): IncomingBody;
  }
  export interface OutgoingBody {
    write(): OutputStream;
  }
  export interface OutgoingResponse {
    setStatusCode(status: number): void;
    body(): OutgoingBody;
  }
  export interface OutgoingRequest {
    setMethod(method: Method): void;
    setScheme(scheme: Scheme): void;
    setAuthority(authority: string): void;
    setPathWithQuery(target: string): void;
    body(): OutgoingBody;
  }
  export interface RequestOptions {
    setConnectTimeout(nanoseconds: U64): void;
    setFirstByteTimeout(nanoseconds: U64): void;
    setBetweenBytesTimeout(nanoseconds: U64): void;
  }
  export type Settled<T, E> = { tag: "ok"; val: T } | { tag: "err"; val: E };
  export interface FutureIncomingResponse {
    subscribe(): Pollable;
    get(): Settled<Settled<IncomingResponse, ErrorCode>, void> | null | undefined;
  }
  export interface ResponseOutparam {
    readonly outparam: never;
  }
  const http: {
    Fields: { new (): Fields; fromList(entries: HostHeader[]): Fields };
    OutgoingResponse: new (headers: Fields) => OutgoingResponse;
    OutgoingRequest: new (headers: Fields) => OutgoingRequest;
    RequestOptions: new () => RequestOptions;
    OutgoingBody: { finish(body: OutgoingBody, trailers: undefined): void };
    ResponseOutparam: {
      set(to: ResponseOutparam, response: Settled<OutgoingResponse, ErrorCode>): void;
    };
    httpErrorCode(error: IoError): ErrorCode | null | undefined;
  };
  export default http;
}

declare module "host:outgoing-handler" {
  import type { FutureIncomingResponse, OutgoingRequest, RequestOptions } from "host:http";
  const handler: {
    handle(
      request: OutgoingRequest,
      options: RequestOptions | undefined,
    ): FutureIncomingResponse;
  };
  export default handler;
}

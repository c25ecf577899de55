/** What the SDK is made of, for what it does not let an actor do. */
declare module "host:actors" {
  const actors: object;
  export default actors;
}

declare const console: { log(...values: unknown[]): void; error(...values: unknown[]): void };
declare class TextDecoder {
  decode(bytes: Uint8Array): string;
}

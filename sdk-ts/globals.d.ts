/**
 * What both engines have beside the language, for projects that do not use the types of the web:
 * `"types": ["@wasmkeep/sdk/globals"]` in tsconfig.json.
 */

declare const console: Record<"debug" | "error" | "info" | "log" | "trace" | "warn", (...values: unknown[]) => void>;

declare const crypto: {
  getRandomValues<T extends ArrayBufferView>(array: T): T;
  randomUUID(): string;
};

declare class TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array;
}

declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: string;
  decode(bytes?: ArrayBuffer | ArrayBufferView): string;
}

declare function atob(base64: string): string;
declare function btoa(latin1: string): string;
declare function queueMicrotask(job: () => void): void;

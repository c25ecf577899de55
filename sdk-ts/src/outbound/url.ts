import type { Scheme } from "host:http";

/** A URL in the parts a request is made of; what they may hold is the host's to judge. */
export interface UrlParts {
  scheme: Scheme;
  authority: string;
  pathAndQuery: string;
}

/** Throws a text that says what is wrong. */
export function parseUrl(text: string): UrlParts {
  const at = text.indexOf("://");
  if (at < 0) throw `${JSON.stringify(text)} is no URL: http://… or https://…`;
  const name = text.slice(0, at).toLowerCase();
  if (name !== "http" && name !== "https") {
    throw `${JSON.stringify(text.slice(0, at))} is no scheme of a request: http or https is`;
  }
  const rest = text.slice(at + 3).split("#")[0] as string;
  const end = rest.search(/[/?]/);
  const [authority, path] = end < 0 ? [rest, ""] : [rest.slice(0, end), rest.slice(end)];
  if (authority === "") throw `${JSON.stringify(text)} names no host`;
  return {
    scheme: { tag: name === "http" ? "HTTP" : "HTTPS" },
    authority,
    pathAndQuery: path.startsWith("/") ? path : `/${path}`,
  };
}

import { register } from "node:module";

register("./hooks.js", import.meta.url);

/** A compiled module of the SDK. */
export const load = (module) => import(`../dist/${module}.js`);

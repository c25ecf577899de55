// Tests of actors on the real server, from Node.js.

export { Actor, Answer } from "./testkit/actor.js";
export { eventually, Node, type NodeOptions } from "./testkit/node.js";
export { Tail, type TailRecord } from "./testkit/tail.js";

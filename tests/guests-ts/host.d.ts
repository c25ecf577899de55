/** What the SDK is made of, for what it does not let an actor do. */
declare module "host:actors" {
  const actors: object;
  export default actors;
}

declare module "host:http" {
  const http: object;
  export default http;
}

// Lets Node load the SDK: what the host would give is what a test put there.
export function resolve(specifier, context, next) {
  if (!specifier.startsWith("host:")) return next(specifier, context);
  const source = `export default globalThis.wasmkeepHost?.[${JSON.stringify(specifier)}] ?? {};`;
  return { url: `data:text/javascript,${encodeURIComponent(source)}`, shortCircuit: true };
}

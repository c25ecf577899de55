// Pages link to files beside docs/, such as ../LICENSE. The book does not hold those: in it, such links
// lead to the repository. mdBook has turned the ends of some into .html.
"use strict";
(() => {
  const repository = "https://github.com/wasmkeep/wasmkeep/blob/main/";
  // Where the book's own pages begin, seen from this page.
  const book = new URL(typeof path_to_root === "string" ? path_to_root : "", document.baseURI);
  // One folder up, in a place that cannot be mistaken for another: docs/ is one below the root.
  const page = new URL(document.baseURI).pathname.slice(book.pathname.length);
  for (const link of document.querySelectorAll("main a[href]")) {
    const href = link.getAttribute("href");
    if (!href.startsWith("../")) continue;
    const target = new URL(href, `https://book.invalid/root/docs/${page}`);
    const inside = target.pathname.slice("/root/".length);
    if (inside.startsWith("docs/")) continue;
    const file = inside.replace(/index\.html$/, "README.md").replace(/\.html$/, ".md");
    link.href = repository + file + target.hash;
  }
})();

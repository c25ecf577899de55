// Puts what the package carries from the repository beside it: the contract and the licence.
import { cpSync, rmSync } from "node:fs";

const root = new URL("../../", import.meta.url);
const here = new URL("../", import.meta.url);
rmSync(new URL("wit", here), { recursive: true, force: true });
cpSync(new URL("wit", root), new URL("wit", here), {
  recursive: true,
  filter: (path) => !path.includes("/wit/src") && !path.endsWith("Cargo.toml"),
});
cpSync(new URL("LICENSE", root), new URL("LICENSE", here));

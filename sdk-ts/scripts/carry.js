// What the package carries from the repository: the contract and the licence. Beside the package only
// while it is packed, so that there is one contract in the repository.
import { cpSync, rmSync } from "node:fs";

const root = new URL("../../", import.meta.url);
const here = new URL("../", import.meta.url);
for (const name of ["wit", "LICENSE"]) rmSync(new URL(name, here), { recursive: true, force: true });
if (process.argv[2] !== "away") {
  cpSync(new URL("LICENSE", root), new URL("LICENSE", here));
  const isContract = (path) => !/(\.toml|\/src(\/.*)?)$/.test(path);
  cpSync(new URL("wit", root), new URL("wit", here), { recursive: true, filter: isContract });
}

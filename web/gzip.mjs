// The files of the page once more, compressed, for browsers that take them so: the server has no compressor.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { constants, gzipSync } from "node:zlib";

const dist = fileURLToPath(new URL("dist/", import.meta.url));
for (const name of readdirSync(dist, { recursive: true }).filter((name) => /\.(css|html|js|svg)$/.test(name))) {
  writeFileSync(`${dist}${name}.gz`, gzipSync(readFileSync(dist + name), { level: constants.Z_BEST_COMPRESSION }));
}

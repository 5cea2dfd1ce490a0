// The list of all that the programs are made of, as CycloneDX 1.6 (JSON, to the file that is named): crates that they are linked with, with the
// checksums of Cargo.lock, and packages that the page holds. Fails where a licence or a source is not among those below.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

const PROGRAMS = ["isocast", "isocast-mount"];
const LICENCES = ["Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CDLA-Permissive-2.0", "ISC", "Unicode-3.0", "Unlicense", "Zlib", "0BSD", "Apache-2.0 WITH LLVM-exception"];
const SOURCE = "registry+https://github.com/rust-lang/crates.io-index";

const target = process.argv[2];
if (target === undefined) throw new Error("usage: node packaging/sbom.mjs FILE");
const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");
const platform = /^host: (.*)$/m.exec(execFileSync("rustc", ["-vV"], { encoding: "utf8" }))[1];
const cargo = (...args) => execFileSync("cargo", ["metadata", "--locked", "--format-version", "1", ...args], { encoding: "utf8", maxBuffer: 1 << 28, cwd: new URL("..", import.meta.url) });
const metadata = JSON.parse(cargo("--filter-platform", platform));

/** Packages that `roots` are linked or built with, by their ids. */
function linked(roots) {
  const nodes = new Map(metadata.resolve.nodes.map((node) => [node.id, node]));
  const found = new Set();
  const waiting = [...roots];
  while (waiting.length > 0) {
    const id = waiting.pop();
    if (found.has(id)) continue;
    found.add(id);
    const used = nodes.get(id).deps.filter(({ dep_kinds }) => dep_kinds.some(({ kind }) => kind !== "dev"));
    waiting.push(...used.map(({ pkg }) => pkg));
  }
  return found;
}

/** True if one of the licences that an expression leaves to choose is allowed. */
const isAllowed = (expression) => expression.split(" AND ").every((part) => part.replace(/[()]/g, "").split(/ OR | ?\/ ?/).some((one) => LICENCES.includes(one.trim())));

const programs = metadata.packages.filter(({ name, source }) => source === null && PROGRAMS.includes(name));
const ids = linked(programs.map(({ id }) => id));
const sums = new Map([...read("Cargo.lock").matchAll(/^name = "(.*)"\nversion = "(.*)"\nsource = .*\nchecksum = "(.*)"$/gm)].map(([, name, version, sum]) => [`${name} ${version}`, sum]));
const crates = metadata.packages.filter(({ id, source }) => ids.has(id) && source !== null);
const packages = Object.entries(JSON.parse(read("web/package-lock.json")).packages).filter(([path, { dev }]) => path !== "" && dev !== true);

const problems = [];
const component = (kind, name, version, licence, hash) => {
  if (licence === undefined || !isAllowed(licence)) problems.push(`${name} ${version}: licence ${licence}`);
  return { type: "library", name, version, purl: `pkg:${kind}/${encodeURIComponent(name).replace("%2F", "/")}@${version}`, licenses: [{ expression: licence?.replace(/ ?\/ ?/g, " OR ") }], hashes: [hash] };
};
const components = [
  ...crates.map(({ name, version, license, source }) => {
    if (source !== SOURCE) problems.push(`${name} ${version}: source ${source}`);
    return component("cargo", name, version, license ?? undefined, { alg: "SHA-256", content: sums.get(`${name} ${version}`) });
  }),
  ...packages.map(([path, { version, license, integrity }]) => component("npm", path.replace("node_modules/", ""), version, license, { alg: "SHA-512", content: Buffer.from(integrity.replace("sha512-", ""), "base64").toString("hex") })),
];
components.sort((a, b) => (a.purl < b.purl ? -1 : 1));
if (problems.length > 0) {
  console.error(`sbom: not allowed (packaging/sbom.mjs):\n${problems.map((problem) => `  ${problem}`).join("\n")}`);
  process.exit(1);
}
const product = { type: "application", name: "isocast", version: programs[0].version, licenses: [{ expression: programs[0].license }] };
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, `${JSON.stringify({ bomFormat: "CycloneDX", specVersion: "1.6", version: 1, metadata: { component: product }, components }, null, 1)}\n`);
console.log(`${target}: ${crates.length} crates, ${packages.length} packages of the page`);

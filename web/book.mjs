// The guide as pages of the server, below /help/: made from docs/guide and docs/reference when the page is built. A file that is in no list below
// is an error, so that none is forgotten.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { Marked } from "marked";

const docs = fileURLToPath(new URL("../docs", import.meta.url));
const target = fileURLToPath(new URL("dist/help", import.meta.url));
const LANGUAGES = { en: "English", ja: "日本語" };
const WORDS = {
  en: { title: "Isocast guide", first: "First steps", use: "Use", run: "Run", measure: "Measure", reference: "Reference", page: "To the server's page", skip: "To the text" },
  ja: { title: "Isocast ガイド", first: "はじめに", use: "使う", run: "運用", measure: "測定", reference: "リファレンス", page: "サーバーのページへ", skip: "本文へ" },
};
/** Chapters in their order; a language without one of its own leads to the English one. */
const PARTS = {
  first: ["guide/first", "guide/home", "guide/recorder", "guide/edge", "guide/nginx", "guide/plan"],
  use: ["guide/page", "guide/players", "guide/share", "guide/ftp", "guide/cp", "guide/mount", "guide/access", "guide/tls"],
  run: ["guide/operate", "guide/trouble", "guide/watch", "guide/snmp", "guide/jobs"],
  measure: ["guide/bench", "guide/lab", "guide/net", "guide/papers"],
  reference: ["reference/config", "reference/http", "reference/metrics", "reference/events", "reference/volume-format"],
};

const own = (chapter, language) => join(docs, dirname(chapter), language === "en" ? "" : language, `${chapter.split("/")[1]}.md`);
const has = (chapter, language) => existsSync(own(chapter, language));
const source = (chapter, language) => own(chapter, has(chapter, language) ? language : "en");
const chapters = Object.values(PARTS).flat();
for (const folder of ["guide", "reference"]) {
  for (const name of readdirSync(join(docs, folder)).filter((name) => name.endsWith(".md"))) {
    if (!chapters.includes(`${folder}/${name.slice(0, -3)}`)) throw new Error(`docs/${folder}/${name} is in no part of the book (web/book.mjs)`);
  }
}

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
const titleOf = (text) => /^# (.*)$/m.exec(text)?.[1]?.replaceAll("`", "") ?? "";
/** As GitHub makes them. */
const anchor = (text) => text.toLowerCase().replace(/<[^>]*>|[^\p{L}\p{N}\s_-]/gu, "").trim().replaceAll(/\s/g, "-");
const pageOf = (chapter, language) => `${language !== "en" && has(chapter, language) ? `${language}-` : ""}${chapter.split("/")[1]}.html`;

/** The address within the book of a link; null for a file that is not in it. */
function linked(href, from, language) {
  if (/^[a-z]+:/.test(href) || href.startsWith("#")) return href;
  const [path = "", part] = href.split("#");
  const file = relative(docs, normalize(join(dirname(from), path)));
  const chapter = file.replace(/^guide\/ja\//, "guide/").replace(/\.md$/, "");
  return chapters.includes(chapter) && file.endsWith(".md") ? `${pageOf(chapter, language)}${part === undefined ? "" : `#${part}`}` : null;
}

function bodyOf(text, from, language) {
  const marked = new Marked({ gfm: true });
  marked.use({
    renderer: {
      heading({ tokens, depth }) {
        const inner = this.parser.parseInline(tokens);
        return `<h${depth} id="${anchor(inner)}">${inner}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const inner = this.parser.parseInline(tokens);
        const to = linked(href, from, language);
        return to === null ? inner : `<a href="${escape(to)}">${inner}</a>`;
      },
      image({ href, text }) {
        const file = normalize(join(dirname(from), href));
        const name = file.split("/").at(-1);
        copyFileSync(file, join(target, name));
        return `<img src="${name}" alt="${escape(text)}" loading="lazy">`;
      },
      code({ text }) {
        return `<pre tabindex="0"><code>${escape(text)}</code></pre>\n`;
      },
      table(token) {
        const cell = (each, tag) => `<${tag}>${this.parser.parseInline(each.tokens)}</${tag}>`;
        const rows = token.rows.map((row) => `<tr>${row.map((each) => cell(each, "td")).join("")}</tr>`).join("\n");
        const head = token.header.map((each) => (each.text === "" ? "<td></td>" : cell(each, "th"))).join("");
        return `<div class="wide" tabindex="0" role="group" aria-label="${escape(token.header.map(({ text }) => text).join(", ") || "…")}"><table><thead><tr>${head}</tr></thead><tbody>${rows}</tbody></table></div>\n`;
      },
    },
  });
  return marked.parse(text);
}

const titles = {};
for (const language of Object.keys(LANGUAGES)) titles[language] = Object.fromEntries(chapters.map((chapter) => [chapter, titleOf(readFileSync(source(chapter, language), "utf8"))]));

function page(chapter, language) {
  const words = WORDS[language];
  const from = source(chapter, language);
  const parts = Object.entries(PARTS).map(([part, list]) => {
    const lines = list.map((each) => `<li><a href="${pageOf(each, language)}"${each === chapter ? ' aria-current="page"' : ""}>${escape(titles[language][each])}</a></li>`);
    return `<li><span>${words[part]}</span><ul>${lines.join("")}</ul></li>`;
  });
  const other = language === "en" ? "ja" : "en";
  const [first] = chapters;
  const across = pageOf(has(chapter, other) ? chapter : first, other);
  return `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escape(titles[language][chapter])} · ${words.title}</title>
<link rel="stylesheet" href="book.css">
</head>
<body>
<a class="skip" href="#text">${words.skip}</a>
<header><a href="../">${words.page}</a> <a href="${across}" lang="${other}" hreflang="${other}">${LANGUAGES[other]}</a></header>
<nav aria-label="${words.title}"><ul>${parts.join("\n")}</ul></nav>
<main id="text">
${bodyOf(readFileSync(from, "utf8"), from, language)}</main>
</body>
</html>
`;
}

mkdirSync(target, { recursive: true });
copyFileSync(fileURLToPath(new URL("book.css", import.meta.url)), join(target, "book.css"));
for (const language of Object.keys(LANGUAGES)) {
  for (const chapter of chapters.filter((chapter) => has(chapter, language))) writeFileSync(join(target, pageOf(chapter, language)), page(chapter, language));
}
writeFileSync(join(target, "index.html"), page(chapters[0], "en"));

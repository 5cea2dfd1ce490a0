// How the page is built: into web/dist, from where the server embeds it.
import { defineConfig } from "vite";

// The page is embedded in the server: relative addresses, no source maps. `npm run dev` passes requests on to a
// running server.
const server = process.env["ISOCAST_URL"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: { outDir: "dist", assetsDir: "assets", target: "es2022", sourcemap: false, chunkSizeWarningLimit: 600 },
  server: { proxy: { "/media": server, "/api": server, "/ready": server, "/upload": server } },
});

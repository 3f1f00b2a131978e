import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The server replaces the nonce's placeholder in every answer; see `src/console.rs` at the repository's root.
export default defineConfig({
  plugins: [react()],
  // `npm run dev`: the API of a server that runs already.
  server: { proxy: { "^/(v1|healthz|openapi.json)": process.env["LAPSE_SERVER_URL"] ?? "http://127.0.0.1:8080" } },
  html: { cspNonce: "__CSP_NONCE__" },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    chunkSizeWarningLimit: 700,
  },
});

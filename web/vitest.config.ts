import { defineConfig } from "vitest/config";

// Plain functions only: what needs a browser is tested in one, see `tests/e2e` at the repository's root.
export default defineConfig({ test: { include: ["test/**/*.test.ts"], environment: "node", setupFiles: ["test/setup.ts"] } });

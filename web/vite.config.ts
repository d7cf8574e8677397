import { defineConfig } from "vite";

// One script and one style sheet with fixed names: the program embeds them, and no page asks for anything.
export default defineConfig({
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    cssCodeSplit: false,
    modulePreload: false,
    lib: { entry: "src/main.ts", formats: ["iife"], name: "pagelab", fileName: () => "page.js", cssFileName: "page" },
  },
});

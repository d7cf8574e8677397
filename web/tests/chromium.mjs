// Debian's chromium, driven by playwright; as root without its sandbox.
import { chromium } from "playwright-core";

export const launched = () => chromium.launch({ executablePath: "/usr/bin/chromium", args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });

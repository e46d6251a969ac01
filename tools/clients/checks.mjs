// Checks of one client for Node: a list, and what runs it against the server of `--url`. The Python ones have checks.py.

import assert from "node:assert/strict";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

// The demo model knows it, also at a temperature of 0.
export const QUESTION = "What is the capital of Italy?";
export const ANSWER = /Rome/;

// A model this small writes white space wherever a grammar lets it, unless what it repeats becomes less likely.
export const PENALTY = 2;

export const WEATHER = {
  type: "object",
  properties: { city: { type: "string", enum: ["Rome", "Oslo"] }, days: { type: "integer", minimum: 1, maximum: 5 } },
  required: ["city", "days"],
  additionalProperties: false,
};

export function isWeather(found) {
  const { city, days, ...rest } = typeof found === "string" ? JSON.parse(found) : found;
  assert(["Rome", "Oslo"].includes(city) && [1, 2, 3, 4, 5].includes(days), `${city}, ${days}`);
  assert.deepEqual(rest, {});
}

const { url, model } = parseArgs({ options: { url: { type: "string" }, model: { type: "string" } } }).values;

export const server = {
  url,
  model,
  /** The base of OpenAI's protocol. */
  openai: `${url}/v1`,
  async running() {
    const text = await (await fetch(`${url}/metrics`)).text();
    const lines = text.split("\n").filter((line) => line.startsWith("vllm:num_requests_running{"));
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  },
  /** Waits until no request runs; one that nobody reads must end soon. */
  async forgets() {
    for (const end = Date.now() + 10_000; (await this.running()) > 0; await sleep(50)) {
      assert(Date.now() < end, "requests run still");
    }
  },
};

/** Runs checks, an object of functions by name. */
export async function run(checks) {
  const client = basename(process.argv[1], "_client.mjs");
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    const start = Date.now();
    try {
      await check();
      console.log(`ok ${client} ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${client} ${name}\n${error.stack}`);
    }
  }
  process.exitCode = failed > 0 ? 1 : 0;
}

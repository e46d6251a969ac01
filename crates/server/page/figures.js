// The figures below an answer, and what is said while it has not begun.

import { serverState } from "./status.js";

/** From this share on, a reader should know how full the context is. */
const NEARLY_FULL = 0.5;

const rate = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));
const count = (number) => number.toLocaleString("en-US");

export function figures({ stats, state, model }) {
  const parts = [];
  if (stats?.written) parts.push(`${count(stats.written)} ${stats.written === 1 ? "token" : "tokens"}`);
  if (stats?.writing) parts.push(`${rate(stats.writing)} tokens/s`);
  if (stats?.prompt) {
    const cached = stats.cached > 0 ? `, ${Math.round((100 * stats.cached) / stats.prompt)} % from cache` : "";
    parts.push(`prompt ${count(stats.prompt)}${cached}`);
  }
  const filled = ((stats?.prompt ?? 0) + (stats?.written ?? 0)) / (serverState().context ?? Infinity);
  if (filled >= NEARLY_FULL) parts.push(`context ${Math.round(filled * 100)} % full`);
  if (state !== "running" && model) parts.push(model);
  return parts.join(" · ");
}

export function waiting() {
  const { waiting: queue = 0, reachable } = serverState();
  if (!reachable) return "Waiting for the server…";
  return queue > 0
    ? `In the queue: ${queue} ${queue === 1 ? "request waits" : "requests wait"}`
    : "Reading the prompt…";
}

// The figures below an answer, and what is said while it has not begun.

import { model, serverState } from "./status.js";

const rate = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));
const count = (number) => number.toLocaleString("en-US");

export function figures({ stats, state, model: name }) {
  const parts = [];
  if (stats?.written) parts.push(`${count(stats.written)} ${stats.written === 1 ? "token" : "tokens"}`);
  if (stats?.writing) parts.push(`${rate(stats.writing)} tokens/s`);
  if (stats?.prompt) {
    const cached = stats.cached > 0 ? `, ${Math.round((100 * stats.cached) / stats.prompt)} % from cache` : "";
    parts.push(`prompt ${count(stats.prompt)}${cached}`);
  }
  if (state !== "running" && name) parts.push(name);
  return parts.join(" · ");
}

export function waiting() {
  const { waiting: queue = 0, trouble } = serverState();
  if (trouble?.kind === "offline") return "Waiting for the server…";
  if (model()?.state === "loading") return `Loading ${model().id}…`;
  return queue > 0
    ? `In the queue: ${queue} ${queue === 1 ? "request waits" : "requests wait"}`
    : "Reading the prompt…";
}

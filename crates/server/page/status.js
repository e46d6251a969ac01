// The server's state: reachable or not, requests, use of the K/V cache. Polled, often only while it matters.

import { metrics, models } from "./client.js";

const BUSY = 1000;
const IDLE = 10_000;
const AWAY = 2000;

const state = { reachable: true, known: false };
let listener = () => {};
let timer = 0;
let isBusy = () => false;
let hasMetrics = true;

export const serverState = () => state;

/** Tokens that a conversation may have. */
export function setContext(tokens) {
  state.context = tokens > 0 ? tokens : undefined;
}

/** Calls `changed(state, before)` after each look at the server; `busy` says whether an answer is being written. */
export function watchServer(busy, changed) {
  isBusy = busy;
  listener = changed;
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) lookNow();
  });
  window.addEventListener("online", lookNow);
  look();
}

/** Looks at the server at once: something has just happened. */
export function lookNow() {
  clearTimeout(timer);
  timer = setTimeout(look, 50);
}

async function look() {
  clearTimeout(timer);
  const before = { ...state };
  if (!document.hidden || isBusy()) {
    try {
      if (hasMetrics) Object.assign(state, readMetrics(await metrics(AbortSignal.timeout(8000))));
      else if (!isBusy()) await models();
      state.reachable = true;
    } catch (error) {
      if (error.kind === "missing" || error.kind === "refused" || error.kind === "server") hasMetrics = false;
      state.reachable = error.kind !== "offline";
    }
    state.known = true;
    listener(state, before);
  }
  // A request that was just stopped may run for another step.
  const busy = isBusy() || state.running > 0;
  timer = setTimeout(look, !state.reachable ? AWAY : busy ? BUSY : IDLE);
}

/** The figures of a Prometheus text that the page shows. */
export function readMetrics(text) {
  const sums = new Map();
  for (const line of text.split("\n")) {
    const found = /^([\w:]+)(?:\{.*\})?\s+([-+\d.eE]+)/.exec(line);
    if (found) sums.set(found[1], (sums.get(found[1]) ?? 0) + Number(found[2]));
  }
  const get = (name) => sums.get(`vllm:${name}`) ?? sums.get(`vllm:${name}_total`);
  const [hits, queries] = [get("prefix_cache_hits"), get("prefix_cache_queries")];
  return {
    running: get("num_requests_running"),
    waiting: get("num_requests_waiting"),
    cache: get("kv_cache_usage_perc"),
    hits: queries > 0 ? hits / queries : undefined,
  };
}

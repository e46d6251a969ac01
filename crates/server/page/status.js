// The server's state: reachable or not, requests, use of the K/V cache. Polled, often only while it matters.

import { metrics, models } from "./client.js";
import { settings } from "./settings.js";

const BUSY = 1000;
const IDLE = 10_000;
const AWAY = 2000;
const LONGEST = 8000;

/** `trouble` is why the server could not be asked, or null; `models` are those of the last time; `loadingSince` is when the
 * chosen model was first seen being loaded. */
const state = { known: false, trouble: null, models: [], loadingSince: Date.now() };
let listener = () => {};
let timer = 0;
let isBusy = () => false;
let hasMetrics = true;

export const serverState = () => state;

/** A model as the server describes it: the chosen one, unless another is named. */
export const model = (name = settings.model) => state.models.find(({ id }) => id === name);

/** Asks the server for its models anew: it knows little of one until that is loaded. */
export async function refreshModels() {
  state.models = await models(true);
  listener(state, state);
}

/** Calls `changed(state, before)` after each look at the server; `busy` says whether an answer is being written. */
export function watchServer(busy, changed) {
  isBusy = busy;
  listener = changed;
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) lookNow();
  });
  window.addEventListener("online", lookNow);
  look(false);
}

/** Looks at the server, and asks for the key if it wants one. */
export function askAgain() {
  look(false);
}

/** Looks at the server at once: something has just happened. */
export function lookNow() {
  clearTimeout(timer);
  timer = setTimeout(look, 50, true);
}

/** What was wrong the last time is asked about anew; `quiet` says not to ask the reader for a key. */
async function look(quiet) {
  clearTimeout(timer);
  const before = { ...state };
  if (!document.hidden || isBusy()) {
    try {
      // A reader may take a while to enter the key.
      state.models = await models(quiet, quiet ? AbortSignal.timeout(LONGEST) : undefined);
      if (hasMetrics) await readFigures();
      state.trouble = null;
    } catch (error) {
      state.trouble = error;
    }
    state.known = true;
    if (model()?.state !== "loading") state.loadingSince = Date.now();
    listener(state, before);
  }
  // A request that was just stopped may run for another step.
  const loads = model()?.state === "loading";
  const busy = isBusy() || loads || state.running > 0;
  timer = setTimeout(look, state.trouble ? AWAY : busy ? BUSY : IDLE, true);
}

/** Not every server has figures. */
async function readFigures() {
  try {
    Object.assign(state, readMetrics(await metrics(AbortSignal.timeout(LONGEST))));
  } catch (error) {
    if (error.kind === "offline") throw error;
    if (["missing", "refused", "server"].includes(error.kind)) hasMetrics = false;
  }
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

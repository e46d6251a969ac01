// Requests to the server that this page came from. Addresses are relative, so that the page works below a path of a proxy.

import { fromError, fromResponse, cut, unreachable } from "./errors.js";
import { events } from "./sse.js";

const KEY = "api-key";
let askForKey = async () => null;

/** `ask` shows the dialog for the key and resolves with the key, or with null if the reader declines. */
export function onKeyNeeded(ask) {
  askForKey = ask;
}

const address = (path) => new URL(path, document.baseURI.replace(/#.*$/, ""));

function headers(more) {
  const key = sessionStorage.getItem(KEY);
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

/** Fetches; asks for the key where one is needed, unless `quiet`. Fails with a `Trouble`, or an AbortError. */
async function request(path, options = {}, quiet = false) {
  for (;;) {
    let response;
    try {
      const init = { cache: "no-store", ...options, headers: headers(options.headers ?? {}) };
      response = await fetch(address(path), init);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw unreachable();
    }
    if (response.ok) return response;
    const trouble = await fromResponse(response);
    if (response.status !== 401 || quiet) throw trouble;
    const key = await askForKey(sessionStorage.getItem(KEY) !== null);
    if (key === null) throw trouble;
    sessionStorage.setItem(KEY, key);
  }
}

/** The models: what the server tells of each. Those that are not loaded may be able to do anything. */
export async function models(quiet, signal) {
  const { data = [] } = await (await request("v1/models", { signal }, quiet)).json();
  return data.map(({ id, status, meta, capabilities = ["completion", "chat"] }) => ({
    id: String(id),
    state: status?.value ?? "loaded",
    context: meta?.n_ctx,
    trained: meta?.n_ctx_train,
    parameters: meta?.n_params,
    writes: capabilities.includes("completion"),
    completes: capabilities.includes("completion") && !capabilities.includes("chat"),
  }));
}

/** The server's own settings; empty where it does not tell. */
export function properties() {
  return tell("props");
}

/** The OpenAPI document of the server; empty where it does not tell. */
export function openapi() {
  return tell("openapi.json");
}

async function tell(path) {
  try {
    return await (await request(path, {}, true)).json();
  } catch {
    return {};
  }
}

/** Text of /metrics. */
export async function metrics(signal) {
  return (await request("metrics", { signal }, true)).text();
}

/** Yields the chunks of a streamed answer. */
export async function* complete({ path, body }, signal) {
  const response = await request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw fromError(chunk.error);
      yield chunk;
    }
  } catch (error) {
    if (error.kind || error.name === "AbortError") throw error;
    throw cut();
  }
}

// What went wrong, in the server's words where it has any, and what to do about it.

/** An error to show: `title` says what happened, `advice` what to do; `kind` tells callers how to react;
 * `tokens` are those of a prompt that is too long. */
export class Trouble extends Error {
  constructor(kind, title, advice, tokens) {
    super(title);
    Object.assign(this, { kind, title, advice, tokens });
  }

  /** The part that is kept with a message. */
  record() {
    return { kind: this.kind, title: this.title, advice: this.advice, tokens: this.tokens };
  }
}

export const unreachable = () =>
  new Trouble(
    "offline",
    `The server at ${location.host} does not answer.`,
    "It may be stopped or restarting. This page notices when it is back; then try again.",
  );

export const cut = () =>
  new Trouble(
    "cut",
    "The connection was lost in the middle of the answer.",
    "What arrived is kept. Go on from there, or try again.",
  );

/** Characters of an answer that is not the server's, such as a proxy's page. */
const FOREIGN = 300;

/** The trouble behind a response that is not a success. */
export async function fromResponse(response) {
  const { status, statusText, headers } = response;
  const text = await response.text().catch(() => "");
  const wait = headers.get("retry-after");
  try {
    const { error } = JSON.parse(text);
    return fromError(typeof error === "string" ? { message: error } : { ...error, wait }, status);
  } catch {
    const said = /^text\/plain/.test(headers.get("content-type") ?? "") ? text.trim().slice(0, FOREIGN) : "";
    return fromError({ message: [`HTTP ${status} ${statusText}`.trim(), said].filter(Boolean).join(": "), wait }, status);
  }
}

/** Kind, advice, and a title for servers that say nothing, by the status; `code` and `type` are the server's. */
function explain(status, code, type, wait) {
  if (status === 401) return ["key", "Give a key that the server knows.", "The server wants an API key."];
  if (code === "model_not_found") return ["missing", "Choose another model above, then try again."];
  if (status === 404) return ["missing", "Something between this page and the server may change addresses."];
  if (status === 413 || code === "context_length_exceeded" || type === "exceed_context_size_error")
    return ["long", "Edit an earlier message, leave out a file, or start a new conversation."];
  if (status === 429 || status === 503 || code === "server_overloaded")
    return ["busy", wait ? `Try again in ${wait} s.` : "Try again in a moment.", "The server is busy."];
  if (status >= 400 && status < 500)
    return ["refused", "Change the message or the settings, then try again.", "The server refused the request."];
  return ["server", "Try again. If it happens again, look at the server's log.", "The server had an error."];
}

/** The trouble behind an error object of the server, in a response or in the stream. */
export function fromError({ message, code, type, wait, n_prompt_tokens: tokens } = {}, status = Number(code) || (type === "invalid_request_error" ? 400 : 500)) {
  const [kind, advice, title = `HTTP ${status}`] = explain(status, code, type, wait);
  return new Trouble(kind, typeof message === "string" && message.trim() !== "" ? message : title, advice, tokens);
}

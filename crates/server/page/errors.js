// What went wrong, in plain words, and what to do about it.

/** An error to show: `title` says what happened, `advice` what to do; `kind` tells callers how to react. */
export class Trouble extends Error {
  constructor(kind, title, advice, detail = "") {
    super(title);
    Object.assign(this, { kind, title, advice, detail });
  }

  /** The part that is kept with a message. */
  record() {
    return { kind: this.kind, title: this.title, advice: this.advice, detail: this.detail };
  }
}

export const unreachable = () =>
  new Trouble(
    "offline",
    "The server does not answer.",
    "It may be stopped or restarting. This page notices when it is back; then try again.",
  );

export const cut = () =>
  new Trouble(
    "cut",
    "The connection was lost in the middle of the answer.",
    "What arrived is kept. Go on from there, or try again.",
  );

/** The trouble behind a response that is not a success. */
export async function fromResponse(response) {
  const text = await response.text().catch(() => "");
  let error = {};
  try {
    error = JSON.parse(text).error ?? {};
  } catch {
    /* not JSON: a proxy's page, perhaps */
  }
  if (typeof error === "string") error = { message: error };
  const wait = response.headers.get("retry-after");
  return fromError({ ...error, code: response.status, wait }, response.status);
}

/** The trouble behind an error object of the server, in a response or in the stream. */
export function fromError(error, status = Number(error.code) || 500) {
  const detail = typeof error.message === "string" ? error.message : "";
  if (status === 401 || status === 403) {
    return new Trouble("key", "The server wants an API key.", "Give the key that the server was started with.", detail);
  }
  if (status === 404) {
    return new Trouble(
      "missing",
      "The server does not have this model.",
      "Choose another model above, then try again.",
      detail,
    );
  }
  if (status === 413 || /context|too (long|large|many tokens)|n_ctx/i.test(`${error.type} ${error.code} ${detail}`)) {
    return new Trouble(
      "long",
      "The conversation is too long for the model.",
      "Shorten it: edit an earlier message, leave out a file, or start a new conversation. " +
        "A server started with a larger context takes more.",
      detail,
    );
  }
  if (status === 429 || status === 503) {
    const when = error.wait ? `Try again in ${error.wait} s.` : "Try again in a moment.";
    return new Trouble("busy", "The server is busy.", when, detail);
  }
  if (status >= 400 && status < 500) {
    return new Trouble(
      "refused",
      "The server refused the request.",
      "Check the settings: one of them may not suit this model.",
      detail,
    );
  }
  return new Trouble(
    "server",
    "The server had an error.",
    "Try again. If it happens again, look at the server's log.",
    detail,
  );
}

// The tokens of an answer and where each is in its text.
//
// A token is { start, end, text, logprob, others }, `others` being [text, logprob] pairs, the most probable first; the text is
// null where the bytes are not a whole text.

const LOOK_AHEAD = 64;

export class Alignment {
  /** `tokens` are those of the text that there is already; later ones are added to them. */
  constructor(tokens = [], length = 0) {
    this.tokens = tokens;
    this.at = length;
    this.decoder = new TextDecoder();
    /** Entries whose text has not arrived: a server holds text back while it may be the beginning of a stop string. */
    this.waiting = [];
  }

  /** Adds the tokens of a chunk; `text` is all of the answer so far, the chunk's part included. */
  add(entries, text) {
    for (const entry of entries) this.waiting.push({ entry, shown: this.#decode(entry) });
    while (this.waiting.length > 0) {
      const { entry, shown } = this.waiting[0];
      const rest = text.slice(this.at, this.at + LOOK_AHEAD + shown.length);
      const place = rest.indexOf(shown);
      if (place < 0 && rest.length < shown.length && shown.startsWith(rest)) return;
      this.waiting.shift();
      // A token that the text lacks, such as the end of the reasoning, has no place of its own.
      const start = this.at + Math.max(0, place);
      this.at = place < 0 ? start : start + shown.length;
      this.tokens.push({
        start,
        end: this.at,
        text: textOf(entry),
        logprob: entry.logprob,
        others: (entry.top_logprobs ?? []).map((other) => [textOf(other), other.logprob]),
      });
    }
  }

  /** What a token adds to the text; the bytes of a character may come from several tokens. */
  #decode(entry) {
    if (!Array.isArray(entry.bytes)) return entry.token ?? "";
    return this.decoder.decode(Uint8Array.from(entry.bytes), { stream: true });
  }
}

function textOf({ token, bytes }) {
  if (!Array.isArray(bytes)) return token ?? null;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  } catch {
    return null;
  }
}

/** The index of the token at a place of the text, or -1. Tokens are in ascending order. */
export function tokenAt(tokens, place) {
  let [low, high] = [0, tokens.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tokens[middle].end <= place) low = middle + 1;
    else high = middle;
  }
  return low < tokens.length && tokens[low].start <= place ? low : -1;
}

/** A token's text with its white space made visible. */
export function visible(text) {
  if (text === null) return "part of a character";
  if (text === "") return "end";
  return text.replace(/ /g, "␣").replace(/\n/g, "↵").replace(/\t/g, "⇥");
}

export const percent = (logprob) => {
  const share = Math.exp(logprob) * 100;
  return share >= 99.95 && share < 100 ? ">99.9 %" : share >= 0.1 || share === 0 ? `${share.toFixed(1)} %` : "<0.1 %";
};

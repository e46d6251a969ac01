// The line below the head: why nothing, or not yet, can be written.

import { find, h, replace } from "./dom.js";
import { askAgain, model, serverState } from "./status.js";

/** What to say of the server and the chosen model: { text, kind, after, act }, or null. */
function notice() {
  const { known, trouble, models, loadingSince } = serverState();
  if (!known) return null;
  if (trouble?.kind === "offline") return { kind: "bad", text: `${trouble.title} Trying again…` };
  if (trouble?.kind === "key") return { kind: "bad", text: trouble.title, act: ["Enter the key", askAgain] };
  if (trouble) return { kind: "bad", text: `${trouble.title} ${trouble.advice}` };
  const chosen = model();
  if (!chosen) return { kind: "bad", text: "The server has no model." };
  if (chosen.state === "loading") {
    const seconds = Math.round((Date.now() - loadingSince) / 1000);
    const text = `${chosen.id} is being loaded. What you send waits until it is there.`;
    return { kind: "busy", text, after: seconds > 1 ? `${seconds} s` : "" };
  }
  if (chosen.writes) return null;
  const other = models.some(({ writes }) => writes)
    ? "Choose another model above."
    : "Start the server with one that writes: rustorch serve -m MODEL";
  return { kind: "bad", text: `${chosen.id} computes embeddings and writes no text. ${other}` };
}

let shown = "";

export function showNotice() {
  const line = find("#notice");
  const { text = "", kind = "", after = "", act } = notice() ?? {};
  line.hidden = text === "";
  if (shown !== text) {
    shown = text;
    line.className = kind;
    replace(
      line,
      h("span", {}, text),
      h("span", { class: "after", "aria-hidden": "true" }),
      act && h("button", { type: "button", onclick: act[1] }, act[0]),
    );
  }
  if (after && line.children.length > 1) line.children[1].textContent = after;
}

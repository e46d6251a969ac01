// Keys that work anywhere on the page.

import * as app from "./app.js";

/** `actions` maps names to functions: search, field, fresh, probabilities, again, settings, sidebar, help. */
export function setUpShortcuts(actions) {
  const alt = { KeyN: "fresh", KeyP: "probabilities", KeyR: "again", KeyS: "settings", KeyB: "sidebar" };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const typing = event.target.closest("input, textarea, select");
    let name = null;
    if (event.key === "Escape" && plain) {
      if (app.generation()) {
        app.stop();
        event.preventDefault();
      }
    } else if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") name = "search";
    else if (event.altKey && !event.ctrlKey && !event.metaKey) name = alt[event.code];
    else if (plain && !typing && event.key === "/") name = "field";
    else if (plain && !typing && event.key === "?") name = "help";
    if (!name) return;
    event.preventDefault();
    actions[name]();
  });
}

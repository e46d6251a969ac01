// Small dialogs: the API key and the list of shortcuts.

import { find, h, replace } from "./dom.js";
import { iconButton } from "./icons.js";

const mac = /Mac|iPhone|iPad/.test(navigator.userAgent);
export const SHORTCUTS = [
  ["Enter", "Send"],
  ["Shift Enter", "Begin a new line"],
  ["Esc", "Stop the answer"],
  ["↑", "Edit the last message, from an empty field"],
  ["/", "Go to the message field"],
  [`${mac ? "⌘" : "Ctrl"} K`, "Search conversations"],
  ["Alt N", "New conversation"],
  ["Alt P", "Token probabilities"],
  ["← →", "Token by token, in a focused answer"],
  ["↓", "Alternatives to the token"],
  ["Alt R", "Answer again"],
  ["Alt S", "Settings"],
  ["Alt B", "List of conversations"],
  ["?", "These shortcuts"],
];

export function openHelp() {
  const dialog = find("#help");
  const rows = SHORTCUTS.map(([keys, what]) =>
    h(
      "div",
      {},
      h(
        "dt",
        {},
        keys.split(" ").map((key) => h("kbd", {}, key)),
      ),
      h("dd", {}, what),
    ),
  );
  replace(
    dialog,
    h(
      "header",
      {},
      h("h2", { id: "help-title", tabIndex: -1, autofocus: true }, "Shortcuts"),
      iconButton("close", "Close", () => dialog.close()),
    ),
    h("dl", { class: "panel" }, rows),
  );
  dialog.onclick = (event) => {
    if (event.target === dialog) dialog.close();
  };
  dialog.showModal();
}

let asking = null;

/** Asks for the API key; resolves with null if the reader declines. `wrong` says that the last one was refused. */
export function askForKey(wrong) {
  asking ??= new Promise((resolve) => {
    const dialog = find("#key");
    const field = h("input", {
      type: "password",
      id: "api-key",
      autocomplete: "off",
      required: true,
      spellcheck: false,
    });
    field.setAttribute("aria-describedby", "key-note");
    const form = h(
      "form",
      { method: "dialog", onsubmit: () => dialog.close(field.value.trim()) },
      h("header", {}, h("h2", { id: "key-title" }, "API key")),
      h(
        "div",
        { class: "panel" },
        h(
          "p",
          { id: "key-note" },
          wrong ? "The server refused this key. " : "This server wants a key. ",
          "Give the one that it was started with. It stays in this tab and is forgotten when the tab is closed.",
        ),
        h("label", { for: "api-key" }, "Key"),
        field,
        h(
          "div",
          { class: "actions" },
          h("button", { type: "button", onclick: () => dialog.close("") }, "Cancel"),
          h("button", { type: "submit", class: "primary" }, "Continue"),
        ),
      ),
    );
    // The form's action stays forbidden by the server's policy: the dialog closes by script.
    form.addEventListener("submit", (event) => event.preventDefault());
    replace(dialog, form);
    dialog.returnValue = "";
    dialog.onclose = () => {
      asking = null;
      resolve(dialog.returnValue || null);
    };
    dialog.showModal();
  });
  return asking;
}

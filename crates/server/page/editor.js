// Editing a message in its place.

import * as app from "./app.js";
import { add, h } from "./dom.js";

export function editor(element, message, close) {
  const own = message.role === "user";
  const area = h("textarea", { value: message.content, "aria-label": own ? "Your message" : "Text of the answer" });
  const keep = () => {
    const text = area.value;
    const unchanged = text === message.content && !own;
    if (unchanged || (text.trim() === "" && !message.files?.length)) close();
    else app.edit(message, text, message.files);
  };
  area.onkeydown = (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    } else if (
      event.key === "Enter" &&
      (event.ctrlKey || event.metaKey || (own && !event.shiftKey)) &&
      !event.isComposing
    ) {
      event.preventDefault();
      keep();
    }
  };
  element.textContent = "";
  add(element, [
    h(
      "div",
      { class: "editor" },
      area,
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", onclick: close }, "Cancel"),
        h("button", { type: "button", class: "primary", onclick: keep }, own ? "Send" : "Save as a branch"),
      ),
    ),
  ]);
  area.focus();
  area.setSelectionRange(area.value.length, area.value.length);
}

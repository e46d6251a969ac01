// What an empty conversation shows.

import { h } from "./dom.js";
import { icon } from "./icons.js";

const EXAMPLES = [
  ["Explain", "Explain how a transformer predicts the next word, for someone who knows school maths."],
  ["Write", "Write a short, friendly message that moves a meeting from Monday to Thursday."],
  ["Program", "Write a Rust function that counts the words of a text, with a test."],
  ["Decide", "Compare SQLite and PostgreSQL for a small web service. Give a table."],
];

export function welcome(onExample) {
  return h(
    "div",
    { class: "welcome" },
    h("div", { class: "mark" }, icon("torch")),
    h("h1", {}, "What is on your mind?"),
    h("p", {}, "The model runs on this server. Conversations stay in this browser."),
    h(
      "ul",
      { class: "examples", role: "list" },
      EXAMPLES.map(([title, text]) =>
        h(
          "li",
          {},
          h("button", { type: "button", onclick: () => onExample(text) }, h("strong", {}, title), h("span", {}, text)),
        ),
      ),
    ),
  );
}

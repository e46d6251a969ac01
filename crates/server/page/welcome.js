// What an empty conversation shows.

import { h } from "./dom.js";
import { icon } from "./icons.js";

/** Below so many parameters, a model knows short questions at most. */
const SMALL = 50e6;

const GENERAL = [
  ["Explain", "Explain how a transformer predicts the next word, for someone who knows school maths."],
  ["Write", "Write a short, friendly message that moves a meeting from Monday to Thursday."],
  ["Program", "Write a Rust function that counts the words of a text, with a test."],
  ["Decide", "Compare SQLite and PostgreSQL for a small web service. Give a table."],
];

const SHORT = [
  ["Know", "What is the capital of Italy?"],
  ["Write", "Tell me a story about a dragon."],
  ["Spell", "Spell the word river."],
  ["Get on", "How do I load another model?"],
];

const BEGINNINGS = [
  ["Story", "Once upon a time"],
  ["Fact", "The capital of Italy is"],
  ["List", "The days of the week are Monday, Tuesday,"],
  ["Program", "def fibonacci(n):"],
];

/** Heading, sentence and examples that suit a model; undefined is one that is not known yet. */
function words(model) {
  if (model?.writes === false) return ["This model writes no text", "It computes embeddings for the server's API.", []];
  if (model?.completes)
    return [
      "How does the text begin?",
      `${model.id} has no chat template: it completes text. Write a beginning, and it goes on from there.`,
      BEGINNINGS,
    ];
  if (model?.parameters < SMALL)
    return ["What is on your mind?", "This model is tiny: it knows short questions and simple stories.", SHORT];
  const when = model?.state === "unloaded" ? `The first message loads ${model.id}.` : "The model runs on this server.";
  return ["What is on your mind?", `${when} Conversations stay in this browser.`, GENERAL];
}

export function welcome(model, onExample) {
  const [heading, sentence, examples] = words(model);
  return h(
    "div",
    { class: "welcome" },
    h("div", { class: "mark" }, icon("torch")),
    h("h1", {}, heading),
    h("p", {}, sentence),
    examples.length > 0 && h(
      "ul",
      { class: "examples", role: "list" },
      examples.map(([title, text]) =>
        h(
          "li",
          {},
          h("button", { type: "button", onclick: () => onExample(text) }, h("strong", {}, title), h("span", {}, text)),
        ),
      ),
    ),
  );
}

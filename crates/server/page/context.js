// How much of the model's context a conversation fills, and what to do when that is much.

import * as app from "./app.js";
import { h, replace } from "./dom.js";
import { model } from "./status.js";

/** From this share on, a reader should know what comes. */
const NEARLY_FULL = 0.8;
/** A model stops a few tokens before the end of its context. */
const SPARE = 4;

const count = (number) => number.toLocaleString("en-US");

/** Tokens of the shown path as the server counted them last, and the level that follows: "", "near" or "full". */
function fill(path, context) {
  const counted = path.findLast(({ stats }) => stats?.prompt > 0)?.stats;
  const refused = path.at(-1)?.error?.kind === "long";
  const used = (refused && path.at(-1).error.tokens) || (counted ? counted.prompt + (counted.written ?? 0) : 0);
  const full = refused || used >= context - SPARE;
  return { used, level: full ? "full" : used >= context * NEARLY_FULL ? "near" : "" };
}

export class ContextMeter {
  constructor() {
    this.bar = h("i");
    this.text = h("span");
    this.meter = h(
      "div",
      { class: "context", title: "Tokens of this conversation, of those that the model can take", hidden: true },
      h("b", { "aria-hidden": "true" }, this.bar),
      this.text,
    );
    this.note = h("div", { class: "context-note", role: "status", hidden: true });
  }

  show() {
    const { context, trained } = model() ?? {};
    const path = app.current().path();
    const { used, level } = context ? fill(path, context) : { used: 0, level: "" };
    this.meter.hidden = used === 0;
    const shown = `${count(used)} of ${count(context ?? 0)}`;
    if (this.text.textContent !== shown) {
      replace(this.text, h("span", { class: "visually-hidden" }, "Context: "), shown);
      this.bar.style.width = `${Math.min(100, (100 * used) / (context || 1))}%`;
    }
    const sign = `${level} ${app.current().id}`;
    if (this.sign === sign) return;
    this.sign = sign;
    this.meter.dataset.level = level;
    this.note.hidden = level === "";
    const larger = trained > context ? " A server started with a larger --ctx-size takes more." : "";
    replace(
      this.note,
      h(
        "p",
        {},
        level === "full"
          ? `The context is full. Edit an earlier message, or start a new conversation.${larger}`
          : "The context is nearly full: soon answers stop. A new conversation has all of it.",
      ),
      h("button", { type: "button", class: "link", onclick: () => app.startNew() }, "New conversation"),
    );
  }
}

// A block of code with its language, a button to copy it, and colours. Complete lines are rendered once.

import { copy, h } from "./dom.js";
import { Highlighter } from "./highlight.js";
import { icon } from "./icons.js";
import { textAt } from "./inline.js";

export class CodeBlock {
  constructor(block) {
    this.code = h("code");
    this.label = h("span", { class: "language" });
    this.button = h(
      "button",
      { type: "button", class: "copy", onclick: () => this.#copy() },
      icon("copy"),
      h("span", {}, "Copy"),
    );
    const pre = h("pre", { tabIndex: 0, role: "group", "aria-label": "Code" }, this.code);
    this.element = h("div", { class: "code-block" }, h("div", { class: "code-head" }, this.label, this.button), pre);
    this.done = 0;
    this.tail = [];
    this.update(block);
  }

  /** Shows the block's lines; those that were complete before are still the same. */
  update(block) {
    if (this.highlighter === undefined || this.highlighter.language !== block.language) {
      this.highlighter = new Highlighter(block.language);
      this.label.textContent = block.language || "text";
      this.code.textContent = "";
      this.done = 0;
      this.tail = [];
    }
    this.lines = block.body;
    this.tail.forEach((node) => node.remove());
    this.tail = [];
    for (const line of block.body.slice(this.done)) {
      const nodes = this.#line(line);
      this.code.append(...nodes);
      if (line.complete) this.done += 1;
      else this.tail = nodes;
    }
  }

  #line(line) {
    const nodes = [];
    let at = line.at;
    const parts = line.complete ? this.highlighter.line(line.text) : this.highlighter.peek(line.text);
    for (const [style, text] of parts) {
      const node = textAt(text, at);
      nodes.push(style ? h("span", { class: `hl-${style}` }, node) : node);
      at += text.length;
    }
    if (line.complete) nodes.push(textAt("\n", at));
    return nodes;
  }

  async #copy() {
    const done = await copy(this.lines.map((line) => line.text).join("\n"));
    const [, word] = this.button.children;
    word.textContent = done ? "Copied" : "Copying failed";
    setTimeout(() => {
      word.textContent = "Copy";
    }, 1600);
  }
}

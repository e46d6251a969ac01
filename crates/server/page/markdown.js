// Markdown as DOM nodes. While an answer arrives, only its last block is rendered again.

import { h } from "./dom.js";
import { blocks, splitLines } from "./blocks.js";
import { CodeBlock } from "./code-block.js";
import { inline } from "./inline.js";

const DEEPEST = 12;

/** A text that grows, rendered into `element`. */
export class MarkdownView {
  constructor() {
    this.element = h("div", { class: "markdown" });
    this.text = "";
    this.#reset();
  }

  #reset() {
    this.element.textContent = "";
    /** Where the first block begins that may still change, its nodes, and its code block if it is one. */
    this.settled = 0;
    this.nodes = [];
    this.code = null;
  }

  update(text) {
    if (text === this.text && this.nodes.length > 0) return;
    if (!text.startsWith(this.text)) this.#reset();
    this.text = text;
    const lines = splitLines(text, this.settled);
    const found = blocks(lines);
    if (this.code && found.length === 1 && found[0].kind === "fence") {
      this.code.update(found[0]);
      return;
    }
    this.nodes.forEach((node) => node.remove());
    // A block no longer changes once the first line of the one after it is complete.
    let open = found.length - 1;
    if (open > 0 && !lines[found[open].first].complete) open -= 1;
    this.nodes = [];
    this.code = null;
    found.forEach((block, i) => {
      const code = block.kind === "fence" ? new CodeBlock(block) : null;
      const node = code ? code.element : render(block, 0);
      this.element.append(node);
      if (i >= open) this.nodes.push(node);
      if (i === open) this.code = code;
    });
    if (found.length > 0) this.settled = lines[found[open].first].at;
  }
}

function render(block, depth) {
  switch (block.kind) {
    case "fence":
      return new CodeBlock(block).element;
    case "rule":
      return h("hr");
    case "table":
      return table(block);
    case "list":
      return list(block, depth);
    case "quote":
      return container(h("blockquote"), block.body, depth);
    // The page has a heading of its own above these.
    case "heading":
      return text(h(`h${Math.min(6, block.level + 1)}`, { class: `heading-${block.level}` }), block.body);
    default:
      return text(h("p"), block.body);
  }
}

function text(element, lines) {
  inline(element, lines);
  return element;
}

function container(element, lines, depth) {
  if (depth >= DEEPEST) return text(element, lines);
  for (const block of blocks(lines)) element.append(render(block, depth + 1));
  return element;
}

function list(block, depth) {
  const element = h(block.ordered ? "ol" : "ul");
  if (block.ordered && block.start !== 1) element.start = block.start;
  for (const { body } of block.items) {
    const item = h("li");
    const task = /^\[([ xX])\][ \t]+/.exec(body[0].text);
    if (task) {
      const done = task[1] !== " ";
      item.className = "task";
      item.append(
        h("input", { type: "checkbox", disabled: true, checked: done, "aria-label": done ? "done" : "to do" }),
      );
      body[0] = { ...body[0], text: body[0].text.slice(task[0].length), at: body[0].at + task[0].length };
    }
    if (depth >= DEEPEST) {
      inline(item, body);
    } else {
      for (const part of blocks(body)) {
        if (part.kind === "paragraph" && !block.loose) inline(item, part.body);
        else item.append(render(part, depth + 1));
      }
    }
    element.append(item);
  }
  return element;
}

function table(block) {
  const row = (cells, tag) =>
    h(
      "tr",
      {},
      cells.map((cell, i) => {
        const element = h(tag, block.sides[i] ? { class: block.sides[i] } : {});
        inline(element, [cell]);
        return element;
      }),
    );
  const head = h("thead", {}, row(block.head, "th"));
  const body = h(
    "tbody",
    {},
    block.rows.map((cells) => row(cells, "td")),
  );
  return h("div", { class: "table", role: "group", "aria-label": "Table", tabIndex: 0 }, h("table", {}, head, body));
}

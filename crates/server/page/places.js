// Between places of an answer's source and places on screen, by the text nodes that the renderer made.

import { sources } from "./inline.js";

/** The text nodes of a rendered answer in the order of their sources. */
export class Places {
  constructor(element) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    this.nodes = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (sources.has(node)) this.nodes.push({ node, start: sources.get(node), end: sources.get(node) + node.length });
    }
    // In formulas the screen has another order than the source, such as that of a root and its index.
    this.nodes.sort((one, other) => one.start - other.start);
  }

  /** The index of the first node that ends after a place. */
  #first(place) {
    let [low, high] = [0, this.nodes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.nodes[middle].end <= place) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The ranges on screen of a part of the source; none for what is not shown, such as the marks of a list. */
  ranges({ start, end }) {
    const found = [];
    for (let i = this.#first(start); i < this.nodes.length && this.nodes[i].start < end; i += 1) {
      const { node, start: from } = this.nodes[i];
      const range = document.createRange();
      range.setStart(node, Math.max(0, start - from));
      range.setEnd(node, Math.min(node.length, end - from));
      found.push(range);
    }
    return found;
  }

  /** Where on screen a part of the source is, or what comes after it if it is not shown. */
  rectangle(part) {
    for (const range of this.ranges(part)) {
      const [rectangle] = range.getClientRects();
      if (rectangle?.width > 0) return rectangle;
    }
    const next = this.nodes[this.#first(part.start)] ?? this.nodes.at(-1);
    if (!next) return null;
    const range = document.createRange();
    range.setStart(next.node, next.start >= part.start ? 0 : next.node.length);
    return range.getClientRects()[0] ?? next.node.parentElement.getBoundingClientRect();
  }
}

/** The place in the source of the character at a point, or -1. */
export function sourceAt(x, y) {
  const [node, offset] = caretAt(x, y);
  if (!node || !sources.has(node)) return -1;
  // The caret is beside the character: the character before or after it is the one meant.
  for (const index of [offset, offset - 1]) {
    if (index < 0 || index >= node.length) continue;
    const range = document.createRange();
    range.setStart(node, index);
    range.setEnd(node, index + 1);
    for (const box of range.getClientRects()) {
      if (x >= box.left - 1 && x <= box.right + 1 && y >= box.top - 3 && y <= box.bottom + 3)
        return sources.get(node) + index;
    }
  }
  return -1;
}

function caretAt(x, y) {
  if (document.caretPositionFromPoint) {
    const caret = document.caretPositionFromPoint(x, y);
    return [caret?.offsetNode, caret?.offset];
  }
  const range = document.caretRangeFromPoint?.(x, y);
  return [range?.startContainer, range?.startOffset];
}

// Inline markdown to DOM nodes: emphasis, code, formulas, links, breaks. Delimiters are matched as CommonMark says, in linear time.

import { h } from "./dom.js";
import { formula, formulaAt } from "./math.js";

const PUNCTUATION = /[\p{P}\p{S}]/u;
const DESTINATION =
  /\(\s{0,9}(?:<([^<>\n]{0,2000})>|([^\s()<]{0,2000}(?:\([^\s()]{0,2000}\)[^\s()]{0,2000}){0,9}))(?:\s{1,9}(?:"[^"]{0,500}"|'[^']{0,500}'))?\s{0,9}\)/y;
const BARE = /(?:https?:\/\/|mailto:)[^\s<>`|]{1,2000}/iy;
const ANGLE = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/iy;
const BREAK = /<br\s?\/?>/iy;
const ENTITY = /&(amp|lt|gt|quot|apos|nbsp|#\d{1,6}|#x[\da-f]{1,5});/iy;
const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };
const ESCAPABLE = /[!-/:-@[-`{-~]/;

/** Where each text node's first character is in the source of its message. */
export const sources = new WeakMap();

/** A text node that knows its place in the source. */
export function textAt(text, at) {
  const node = document.createTextNode(text);
  sources.set(node, at);
  return node;
}

/** The address if it is one that a reader may follow, else null. */
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function entity(name) {
  if (!name.startsWith("#")) return NAMED[name.toLowerCase()];
  const code = name[1].toLowerCase() === "x" ? parseInt(name.slice(2), 16) : Number(name.slice(1));
  return code > 31 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : "\ufffd";
}

/**
 * Appends the text of `lines` ({ text, at }) to `parent`, in which every text node knows its source.
 */
export function inline(parent, lines) {
  const text = lines.map((line) => line.text).join("\n");
  const starts = [];
  for (let begin = 0, i = 0; i < lines.length; i += 1) {
    starts.push(begin);
    begin += lines[i].text.length + 1;
  }
  const pieces = scan(text);
  match(pieces, 0);
  build(parent, pieces, { text, lines, starts, line: 0 });
}

/** Cuts the text into pieces: text, delimiters, links and whole nodes. */
function scan(text) {
  const pieces = [];
  const brackets = [];
  const unclosed = new Set();
  const unclosedMath = new Set();
  let plain = 0;
  let i = 0;
  const flush = (end) => {
    if (end > plain) pieces.push({ from: plain, to: end });
  };
  const node = (end, piece) => {
    flush(i);
    pieces.push(piece);
    i = plain = end;
  };
  const sticky = (pattern) => {
    pattern.lastIndex = i;
    return pattern.exec(text);
  };
  while (i < text.length) {
    const c = text[i];
    const math = c === "$" || c === "\\" ? formulaAt(text, i, unclosedMath) : null;
    if (math) {
      node(math.end, { math, from: i });
    } else if (c === "\\" && (text[i + 1] === "(" || text[i + 1] === "[")) {
      // Of a formula that is not closed yet.
      i += 2;
    } else if (c === "\\" && text[i + 1] === "\n") {
      flush(i);
      plain = i += 1;
    } else if (c === "\\" && ESCAPABLE.test(text[i + 1] ?? "")) {
      flush(i);
      plain = i + 1;
      i += 2;
    } else if (c === "`") {
      const run = /`+/y;
      run.lastIndex = i;
      const fence = run.exec(text)[0];
      const end = unclosed.has(fence.length) ? -1 : closingRun(text, i + fence.length, fence.length);
      if (end < 0) {
        unclosed.add(fence.length);
        i += fence.length;
      } else {
        const inset = /^ .*\S.* $/s.test(text.slice(i + fence.length, end)) ? 1 : 0;
        node(end + fence.length, { code: [i + fence.length + inset, end - inset], from: i });
      }
    } else if (c === "*" || c === "_" || c === "~") {
      let end = i;
      while (text[end] === c) end += 1;
      node(end, delimiter(text, i, end));
    } else if (c === "[") {
      flush(i);
      brackets.push(pieces.length);
      pieces.push({ from: i, to: i + 1, image: text[i - 1] === "!" });
      plain = i += 1;
    } else if (c === "]" && brackets.length > 0) {
      DESTINATION.lastIndex = i + 1;
      const found = DESTINATION.exec(text);
      const opener = brackets.pop();
      if (found) {
        flush(i);
        match(pieces, opener + 1);
        const href = safeAddress(found[1] ?? found[2]);
        Object.assign(pieces[opener], { link: href ?? "", to: pieces[opener].from });
        dropMark(pieces, opener);
        pieces.push({ unlink: true, from: i });
        brackets.length = 0;
        plain = i = DESTINATION.lastIndex;
      } else {
        i += 1;
      }
    } else if (c === "<" && sticky(BREAK)) {
      node(BREAK.lastIndex, { make: () => h("br"), from: i });
      if (text[i] === "\n") i += 1;
    } else if (c === "<" && sticky(ANGLE)) {
      const href = safeAddress(text.slice(i + 1, ANGLE.lastIndex - 1));
      node(ANGLE.lastIndex, { href, from: i + 1, to: ANGLE.lastIndex - 1 });
    } else if (c === "&" && sticky(ENTITY)) {
      const shown = entity(sticky(ENTITY)[1]);
      const from = i;
      node(i + sticky(ENTITY)[0].length, { make: (at) => textAt(shown, at), from });
    } else if ((c === "h" || c === "H" || c === "m") && !/\w/.test(text[i - 1] ?? "") && sticky(BARE)) {
      const address = trimmed(sticky(BARE)[0]);
      node(i + address.length, { href: safeAddress(address), from: i, to: i + address.length });
    } else if (c === "\n") {
      // Also without two spaces before it: models write poems and addresses so.
      node(i, { make: () => h("br"), from: i });
      i += 1;
    } else {
      i += 1;
    }
  }
  flush(text.length);
  return pieces;
}

/** The exclamation mark of an image is not text: pictures become links, since nothing is fetched from elsewhere. */
function dropMark(pieces, opener) {
  const before = pieces[opener - 1];
  if (pieces[opener].image && before && before.to === pieces[opener].from) before.to -= 1;
}

function closingRun(text, from, length) {
  const runs = /`+/g;
  runs.lastIndex = from;
  for (let found = runs.exec(text); found; found = runs.exec(text)) {
    if (found[0].length === length) return found.index;
  }
  return -1;
}

/** A bare address without the punctuation that ends the sentence around it. */
function trimmed(address) {
  let end = address.length;
  for (; end > 0; end -= 1) {
    const last = address[end - 1];
    if (last === ")" && address.slice(0, end).split("(").length >= address.slice(0, end).split(")").length) break;
    if (!".,:;!?\"'*_~)]".includes(last)) break;
  }
  return address.slice(0, end);
}

function delimiter(text, from, to) {
  const before = text[from - 1] ?? " ";
  const after = text[to] ?? " ";
  const leans = (near, far) => !/\s/.test(near) && (!PUNCTUATION.test(near) || /\s/.test(far) || PUNCTUATION.test(far));
  const left = leans(after, before);
  const right = leans(before, after);
  const mark = text[from];
  const word = mark === "_";
  return {
    from,
    to,
    mark,
    opens: [],
    closes: [],
    left: to - from,
    open: left && (!word || !right || PUNCTUATION.test(before)),
    close: right && (!word || !left || PUNCTUATION.test(after)),
  };
}

/** Matches the delimiters among the pieces from `first` on; what is matched or passed over is not looked at again. */
function match(pieces, first) {
  const open = [];
  const failed = new Map();
  for (let i = first; i < pieces.length; i += 1) {
    const closer = pieces[i];
    if (!closer.mark || closer.done) continue;
    closer.done = true;
    const length = closer.to - closer.from;
    const key = `${closer.mark}${closer.open}${length % 3}`;
    while (closer.close && closer.left > 0) {
      const bottom = Math.min(failed.get(key) ?? 0, open.length);
      let at = open.length - 1;
      while (at >= bottom && !fits(open[at], closer)) at -= 1;
      if (at < bottom) {
        failed.set(key, open.length);
        break;
      }
      const opener = open[at];
      open.length = at + 1;
      const strike = closer.mark === "~";
      const used = opener.left >= 2 && closer.left >= 2 ? 2 : 1;
      const tag = strike ? "del" : used === 2 ? "strong" : "em";
      opener.left -= used;
      closer.left -= used;
      opener.opens.unshift(tag);
      closer.closes.push(tag);
      if (opener.left === 0) open.pop();
    }
    if (closer.open && closer.left > 0) open.push(closer);
  }
}

function fits(opener, closer) {
  if (opener.mark !== closer.mark) return false;
  if (opener.mark === "~") return opener.left >= 2 && closer.left >= 2;
  const lengths = [opener.to - opener.from, closer.to - closer.from];
  const both = opener.close || closer.open;
  return !both || (lengths[0] + lengths[1]) % 3 !== 0 || lengths.every((length) => length % 3 === 0);
}

function build(parent, pieces, source) {
  const stack = [parent];
  const top = () => stack[stack.length - 1];
  const push = (element) => {
    if (stack.length < 40) top().append(element);
    stack.push(stack.length < 40 ? element : top());
  };
  for (const piece of pieces) {
    if (piece.mark) {
      piece.closes.forEach(() => stack.pop());
      write(top(), source, piece.from, piece.from + piece.left);
      piece.opens.forEach((tag) => push(h(tag)));
    } else if (piece.link !== undefined) {
      push(
        piece.link ? anchor(piece.link) : h("span", { class: "unlinked", title: "This address is not a web address" }),
      );
    } else if (piece.unlink) {
      stack.pop();
    } else if (piece.math) {
      top().append(math(source, piece));
    } else if (piece.code) {
      top().append(code(source, ...piece.code));
    } else if (piece.make) {
      top().append(piece.make(place(source, piece.from)));
    } else if (piece.href) {
      const link = anchor(piece.href);
      write(link, source, piece.from, piece.to);
      top().append(link);
    } else {
      write(top(), source, piece.from, piece.to);
    }
  }
}

function code(source, from, to, style) {
  const element = h("code", style);
  write(element, source, from, to);
  return element;
}

/** A formula; one that is not understood is shown as it was written. */
function math(source, { math: { from, to, display, end }, from: begin }) {
  const found = formula(source.text.slice(from, to), display);
  if (!found) return code(source, begin, end, { class: "latex" });
  for (const { node, at } of found.leaves) sources.set(node, place(source, from + at));
  return found.element;
}

function anchor(href) {
  return h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" });
}

/** Source position of an index into the joined text. Indices come in ascending order. */
function place(source, index) {
  while (source.line + 1 < source.starts.length && source.starts[source.line + 1] <= index) source.line += 1;
  return source.lines[source.line].at + index - source.starts[source.line];
}

/** Appends a slice as text nodes, one per line, since lines need not be adjacent in the source. */
function write(parent, source, from, to) {
  while (from < to) {
    const at = place(source, from);
    const end = Math.min(to, source.starts[source.line + 1] ?? to);
    parent.append(textAt(source.text.slice(from, end), at));
    from = end;
  }
}

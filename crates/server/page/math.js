// Formulas in markdown: where they begin and end, and how they look.

import { h } from "./dom.js";
import { isEnvironment, mathml } from "./latex.js";

const LONGEST_LINES = 100;
const LONGEST_INLINE = 1000;
/** A line that may begin a display formula of several lines. */
const OPENS = /^[ \t]*(\$\$|\\\[|\\begin\{[a-zA-Z]{1,20}\*?\})|(\$\$|\\\[)[ \t]*$/;
const BEGIN = /\\begin\{([a-zA-Z]{1,20}\*?)\}/y;
/** Behind a formula: no word, but the end of one as in "$n$th". */
const FOLLOWS = /(?:st|nd|rd|th|s)?(?![\w$])/y;
/** "$5 for one and 10$" is prose: it begins with a number and has words, but nothing that only formulas have. */
const PROSE = /^\d[^\\^_{}=]*\s\p{L}{2}/u;

/**
 * The formula that begins at `i`: { from, to, display, end }, its LaTeX being from `from` to `to`; or null. `unclosed` remembers, for
 * one text, which delimiters close nowhere behind the place.
 */
export function formulaAt(text, i, unclosed) {
  if (text.startsWith("$$", i)) return closed(text, i, 2, "$$", unclosed);
  if (text[i] === "$") return dollars(text, i);
  if (text[i + 1] === "(") return closed(text, i, 2, "\\)", unclosed);
  if (text[i + 1] === "[") return closed(text, i, 2, "\\]", unclosed);
  BEGIN.lastIndex = i;
  const name = BEGIN.exec(text)?.[1];
  return name && isEnvironment(name) ? environment(text, i, `\\end{${name}}`, unclosed) : null;
}

/** A formula up to `close`, unless another one opens before. */
function closed(text, i, width, close, unclosed) {
  if (unclosed.has(close)) return null;
  const opener = text.slice(i, i + width);
  const pairs = /\\[\s\S]|\$\$/g;
  pairs.lastIndex = i + width;
  for (let found = pairs.exec(text); found; found = pairs.exec(text)) {
    if (found[0] === close) {
      const from = i + width;
      return /\S/.test(text.slice(from, found.index))
        ? { from, to: found.index, display: close !== "\\)", end: pairs.lastIndex }
        : null;
    }
    if (found[0] === opener) return null;
  }
  unclosed.add(close);
  return null;
}

function environment(text, i, close, unclosed) {
  const to = unclosed.has(close) ? -1 : text.indexOf(close, i);
  if (to < 0) {
    unclosed.add(close);
    return null;
  }
  const end = to + close.length;
  return { from: i, to: end, display: true, end };
}

/**
 * A dollar sign opens before a character and closes after one; amounts of money, names of variables and the sign itself in
 * brackets or quotes are neither. Those within braces are of a text in the formula.
 */
function dollars(text, i) {
  if (/[\w$]/.test(text[i - 1] ?? "") || /[\s$),;!?'"’”]/.test(text[i + 1] ?? " ")) return null;
  const signs = /\\[\s\S]|[$`{}]/g;
  signs.lastIndex = i + 1;
  let depth = 0;
  for (let found = signs.exec(text); found && found.index < i + LONGEST_INLINE; found = signs.exec(text)) {
    const [sign] = found;
    if (sign === "`") return null;
    if (sign === "{") depth += 1;
    if (sign === "}") depth -= 1;
    if (sign !== "$" || depth > 0) continue;
    const latex = text.slice(i + 1, found.index);
    const end = found.index + 1;
    FOLLOWS.lastIndex = end;
    return /\s$/.test(latex) || PROSE.test(latex) || !FOLLOWS.test(text)
      ? null
      : { from: i + 1, to: found.index, display: false, end };
  }
  return null;
}

/**
 * The index of the line that closes the display formula which line `i` opens: its lines are no lists, headings or quotes. The last
 * index if it may still be closed, and `i` if no formula stays open.
 */
export function formulaEnd(lines, i) {
  const open = OPENS.exec(lines[i].text);
  if (!open) return i;
  const opener = open[1] ?? open[2];
  const close = opener === "$$" ? "$$" : opener === "\\[" ? "\\]" : opener.replace("begin", "end");
  const at = open.index + open[0].indexOf(opener) + opener.length;
  if (lines[i].text.includes(close, at)) return i;
  const last = Math.min(lines.length, i + LONGEST_LINES) - 1;
  for (let end = i + 1; end <= last; end += 1) {
    if (lines[end].text.includes(close)) return end;
    if (!/\S/.test(lines[end].text)) return lines[end].complete ? i : end - 1;
  }
  return last === lines.length - 1 ? last : i;
}

/**
 * A formula as { element, leaves }, its leaves being { node, at } in the order of the source; null if the LaTeX has something
 * unknown.
 */
export function formula(latex, display) {
  const found = mathml(latex, display);
  if (!found || !display) return found;
  const label = { role: "group", "aria-label": "Formula", tabIndex: 0 };
  return { ...found, element: h("span", { class: "formula", ...label }, found.element) };
}

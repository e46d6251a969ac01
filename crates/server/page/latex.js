// LaTeX's mathematics to MathML, which browsers render. A formula is parsed whole or not at all: what is unknown throws `Unknown`.

import { COMMANDS, FRACTIONS, STYLES, TEXTS } from "./latex-commands.js";
import {
  ACCENTS,
  ALPHABETS,
  ARROWS,
  CHARACTERS,
  FUNCTIONS,
  LIMITS,
  SPACES,
  SWITCHES,
  SYMBOLS,
  styled,
} from "./latex-symbols.js";
import { Unknown, group, m, ordinary, space } from "./mathml.js";

const LONGEST = 10_000;
const DEEPEST = 100;
const TOKEN = /\\(?:[a-zA-Z]+|[\s\S])|[\s\S]/uy;
/** What ends a row and must be expected by the one who reads it. */
const ENDS = new Set(["", "}", "&", "\\\\", "\\cr", "\\end", "\\right", "\\middle", "$"]);

/** Heights of delimiters in em. */
const SIZES = { big: 1.2, Big: 1.8, bigg: 2.4, Bigg: 3 };

const FENCES = { p: ["(", ")"], b: ["[", "]"], B: ["{", "}"], v: ["|", "|"], V: ["‖", "‖"] };
const ALIGNED = { class: "aligned", displaystyle: "true" };
const GATHERED = { displaystyle: "true" };
const CASES = { class: "cases" };
/** By name: the attributes of the table, the classes of its columns, its fences, and whether an argument follows. */
const ENVIRONMENTS = new Map([
  ...["aligned", "align", "split"].map((name) => [name, { table: ALIGNED }]),
  ...["alignedat", "alignat"].map((name) => [name, { table: ALIGNED, argument: "skipped" }]),
  ...["gathered", "gather", "equation", "multline", "displaymath", "math"].map((name) => [name, { table: GATHERED }]),
  ...["matrix", "smallmatrix"].map((name) => [name, { table: {} }]),
  ...Object.entries(FENCES).map(([letter, fences]) => [`${letter}matrix`, { table: {}, fences }]),
  ["eqnarray", { table: GATHERED, columns: ["right", "", "left"] }],
  ...["array", "subarray"].map((name) => [name, { table: {}, argument: "columns" }]),
  ["cases", { table: CASES, fences: ["{", ""] }],
  ["dcases", { table: { ...CASES, displaystyle: "true" }, fences: ["{", ""] }],
  ["rcases", { table: CASES, fences: ["", "}"] }],
]);

const withoutStar = (name) => name.replace(/\*$/, "");

/** Whether an environment may stand in text without delimiters around it. */
export function isEnvironment(name) {
  return ENVIRONMENTS.has(withoutStar(name));
}

/** The formula as { element, leaves }, or null if the LaTeX is not understood in full. */
export function mathml(latex, display) {
  if (latex.length > LONGEST) return null;
  const parser = new Parser(latex);
  try {
    const content = parser.formula();
    return { element: m("math", display ? { display: "block" } : {}, content), leaves: parser.leaves };
  } catch (error) {
    if (error instanceof Unknown) return null;
    throw error;
  }
}

/** What may stand before a sign that is an operation between two. */
const OPERANDS = new Set(["ordinary", "close", "space"]);

/** Appends an item to a row with what TeX does between kinds: signs without a left operand, and spaces around functions. */
function append(row, item) {
  const before = row.at(-1)?.kind;
  if (item.kind === "binary" && !OPERANDS.has(before)) {
    if (item.node.localName === "mo") item.node.setAttribute("form", "prefix");
    item.kind = "sign";
  }
  const follows = before === "function" && ["ordinary", "function", "sum", "integral"].includes(item.kind);
  const precedes = item.kind === "function" && ["ordinary", "close"].includes(before);
  if (follows || precedes) row.push({ node: space(0.1667), kind: "space" });
  row.push(item);
}

class Parser {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.depth = 0;
    this.alphabet = null;
    /** Text nodes that stand for a place in the source, in its order. */
    this.leaves = [];
  }

  enter() {
    if (++this.depth > DEEPEST) throw new Unknown("nested too deeply");
  }

  // Tokens

  peek() {
    while (/\s/.test(this.text[this.at] ?? "")) this.at += 1;
    TOKEN.lastIndex = this.at;
    return TOKEN.exec(this.text)?.[0] ?? "";
  }

  next() {
    const token = this.peek();
    this.begin = this.at;
    this.at += token.length;
    return token;
  }

  take(token) {
    const found = this.peek() === token;
    if (found) this.next();
    return found;
  }

  expect(token) {
    if (!this.take(token)) throw new Unknown(token);
  }

  /** What matches from here on. */
  run(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.at += found.length;
    return found;
  }

  /** The source between braces, which may be nested. */
  raw() {
    this.expect("{");
    const from = this.at;
    for (let open = 1; open > 0;) {
      const token = this.run(TOKEN);
      if (token === "") throw new Unknown("}");
      open += token === "{" ? 1 : token === "}" ? -1 : 0;
    }
    return { from, text: this.text.slice(from, this.at - 1) };
  }

  // Leaves

  leaf(tag, attributes, text, at = this.begin, length = this.at - at) {
    const node = document.createTextNode(text);
    if (text.length <= length) this.leaves.push({ node, at });
    return m(tag, attributes, node);
  }

  letters(text) {
    const alphabet = this.alphabet;
    const shown = [...text].map((letter) => styled(letter, alphabet)).join("");
    const upright = alphabet && alphabet !== "italic" && shown === text && text.length === 1;
    return ordinary(this.leaf("mi", upright ? { mathvariant: "normal" } : {}, shown));
  }

  symbol({ kind, text }) {
    switch (kind) {
      case "letter":
        return this.letters(text);
      case "upright":
        return ordinary(this.leaf("mi", { mathvariant: "normal" }, styled(text, this.alphabet)));
      case "open":
        return { node: this.leaf("mo", { form: "prefix", stretchy: "false" }, text), kind };
      case "close":
        return { node: this.leaf("mo", { form: "postfix", stretchy: "false" }, text), kind };
      case "bar":
        return ordinary(this.leaf("mo", { stretchy: "false", lspace: "0", rspace: "0" }, text));
      case "sum":
        return { node: this.leaf("mo", {}, text), kind, limits: true };
      default:
        return { node: this.leaf("mo", {}, text), kind };
    }
  }

  operator(name, limits) {
    const attributes = limits ? { movablelimits: "true", lspace: "0", rspace: "0" } : {};
    return { node: this.leaf(limits ? "mo" : "mi", attributes, name), kind: "function", limits };
  }

  // Rows

  formula() {
    const rows = this.rows();
    if (this.peek() !== "") throw new Unknown(this.peek());
    if (rows.length === 1 && rows[0].cells.length === 1) return rows[0].cells[0];
    return this.table(rows, rows.some(({ cells }) => cells.length > 1) ? ALIGNED : GATHERED);
  }

  /** Items up to a token that ends a row, or to `stop`. */
  row(stop) {
    this.enter();
    const outer = this.alphabet;
    const items = [];
    for (let token = this.peek(); !ENDS.has(token) && token !== stop; token = this.peek()) {
      const command = token.slice(1);
      if (FRACTIONS.has(command)) {
        this.next();
        const above = group(items.splice(0).map(({ node }) => node));
        items.push(ordinary(FRACTIONS.get(command)(above, this.row(stop))));
      } else if (STYLES.has(command)) {
        this.next();
        items.push(ordinary(m("mstyle", STYLES.get(command), this.row(stop))));
      } else if (SWITCHES.has(command)) {
        this.next();
        this.alphabet = ALPHABETS.get(command);
      } else {
        const item = this.scripted();
        if (item) append(items, item);
      }
    }
    this.alphabet = outer;
    this.depth -= 1;
    return group(items.map(({ node }) => node));
  }

  braces() {
    this.expect("{");
    const node = this.row();
    this.expect("}");
    return node;
  }

  /** An argument: a group, or one token. */
  argument() {
    const token = this.peek();
    if (token === "{") return this.braces();
    if (ENDS.has(token) || token === "^" || token === "_") throw new Unknown("argument");
    if (/\d/.test(token)) return this.leaf("mn", {}, styled(this.next(), this.alphabet));
    this.enter();
    const items = [];
    append(items, this.atom(1) ?? ordinary(m("mrow", {})));
    this.depth -= 1;
    return items[0].node;
  }

  /** An optional argument in brackets, or null. */
  option() {
    if (!this.take("[")) return null;
    const node = this.row("]");
    this.expect("]");
    return node;
  }

  /** An item with its scripts; null for a command that shows nothing. */
  scripted() {
    const bare = ["^", "_", "'"].includes(this.peek());
    const base = bare ? ordinary(m("mrow", {})) : this.atom();
    if (!base) return null;
    let { limits } = base;
    let [below, above] = [null, null];
    for (;;) {
      if (this.take("\\limits")) {
        limits = true;
        if (base.node.localName === "mo") base.node.setAttribute("movablelimits", "false");
      } else if (this.take("\\nolimits")) {
        limits = false;
      } else if (this.peek() === "_" && !below) {
        this.next();
        below = this.argument();
      } else if (this.peek() === "^" && !above) {
        this.next();
        above = this.argument();
      } else if (this.peek() === "'" && !above) {
        this.next();
        const primes = "′".repeat(1 + this.run(/'*/y).length);
        const mark = this.leaf("mo", {}, primes);
        above = this.take("^") ? m("mrow", {}, mark, this.argument()) : mark;
      } else if (["_", "^", "'"].includes(this.peek())) {
        throw new Unknown("double script");
      } else {
        break;
      }
    }
    if (!below && !above) return base;
    const scripts = [below, above].filter(Boolean);
    const tag = limits
      ? below && above
        ? "munderover"
        : below
          ? "munder"
          : "mover"
      : below && above
        ? "msubsup"
        : below
          ? "msub"
          : "msup";
    return { node: m(tag, {}, base.node, ...scripts), kind: base.kind };
  }

  /** One item; of letters that belong together, such as an upright word, at most `most`. */
  atom(most = Infinity) {
    const token = this.next();
    if (token === "{") {
      const node = this.row();
      this.expect("}");
      return ordinary(node);
    }
    if (token.length > 1 && token[0] === "\\") return this.command(token.slice(1));
    if (/\d/.test(token) || (token === "." && /\d/.test(this.text[this.at] ?? ""))) {
      const digits = token + (most > 1 ? this.run(token === "." ? /\d*/y : /\d*(?:\.\d+)?/y) : "");
      return ordinary(this.leaf("mn", {}, [...digits].map((digit) => styled(digit, this.alphabet)).join("")));
    }
    if (/[a-zA-Z]/.test(token)) {
      const word = most > 1 && this.alphabet && this.alphabet !== "italic" && this.alphabet !== "bold-italic";
      return this.letters(token + (word ? this.run(/[a-zA-Z]*/y) : ""));
    }
    if (token === "~") return { node: space(0.3333), kind: "space" };
    const symbol = CHARACTERS.get(token);
    if (symbol) return this.symbol(symbol);
    if (/\p{L}/u.test(token)) return ordinary(this.leaf("mi", {}, token));
    if (/[\p{S}\p{P}\p{N}\p{M}]/u.test(token) && !"\\#&$^_'{}".includes(token)) {
      return ordinary(this.leaf("mi", { mathvariant: "normal" }, token));
    }
    throw new Unknown(token);
  }

  command(name) {
    const symbol = SYMBOLS.get(name);
    if (symbol) return this.symbol(symbol);
    if (SPACES.has(name)) return SPACES.get(name) > 0 ? { node: space(SPACES.get(name)), kind: "space" } : null;
    if (FUNCTIONS.has(name)) return this.operator(name, false);
    if (LIMITS.has(name)) return this.operator(LIMITS.get(name), true);
    if (ACCENTS.has(name)) return this.accent(ACCENTS.get(name));
    if (ARROWS.has(name)) return this.arrow(ARROWS.get(name));
    if (TEXTS.has(name)) return this.words(TEXTS.get(name));
    if (ALPHABETS.has(name)) return this.alphabetic(ALPHABETS.get(name));
    const size = /^([bB]igg?)([lrm]?)$/.exec(name);
    if (size) return this.sized(SIZES[size[1]], size[2]);
    const command = COMMANDS.get(name);
    if (!command) throw new Unknown(name);
    return command(this, name);
  }

  alphabetic(alphabet) {
    const outer = this.alphabet;
    this.alphabet = alphabet;
    const node = this.argument();
    this.alphabet = outer;
    return ordinary(node);
  }

  accent({ text, wide, under }) {
    const { begin, at } = this;
    const mark = this.leaf("mo", { stretchy: `${wide}` }, text, begin, at - begin);
    const base = this.argument();
    const node = under ? m("munder", { accentunder: "true" }, base, mark) : m("mover", { accent: "true" }, base, mark);
    return { node, kind: "ordinary", limits: /[⏞⏟⎴⎵⏜⏝]/.test(text) };
  }

  arrow(text) {
    const mark = this.leaf("mo", { stretchy: "true" }, text);
    const padded = (node) => node && m("mrow", {}, space(0.4), node, space(0.4));
    const below = padded(this.option());
    const above = padded(this.argument());
    return {
      node: below ? m("munderover", {}, mark, below, above) : m("mover", {}, mark, above),
      kind: "relation",
    };
  }

  /** The character of a delimiter; none for a dot. */
  delimiter() {
    const token = this.next();
    const symbol = (token.length > 1 && SYMBOLS.get(token.slice(1))) || CHARACTERS.get(token);
    const arrow = symbol && /[↑↓↕⇑⇓⇕/∖\\]/.test(symbol.text);
    if (token === ".") return "";
    if (token === "<" || token === ">") return token === "<" ? "⟨" : "⟩";
    if (!arrow && !["open", "close", "bar"].includes(symbol?.kind)) throw new Unknown(token);
    return symbol.text;
  }

  fence(attributes) {
    const text = this.delimiter();
    return text ? [this.leaf("mo", { ...attributes, stretchy: "true" }, text)] : [];
  }

  /** A delimiter of a height in em; `side` is l, r, m or nothing. */
  sized(size, side) {
    const height = { minsize: `${size}em`, maxsize: `${size}em` };
    const text = this.delimiter();
    const node = this.leaf("mo", { stretchy: "true", symmetric: "true", ...height, lspace: "0", rspace: "0" }, text);
    return { node, kind: { l: "open", r: "close", m: "relation" }[side] ?? "ordinary" };
  }

  left() {
    const nodes = this.fence({ form: "prefix" });
    nodes.push(this.row());
    while (this.take("\\middle")) {
      nodes.push(...this.fence({ lspace: "0.2em", rspace: "0.2em" }));
      nodes.push(this.row());
    }
    this.expect("\\right");
    nodes.push(...this.fence({ form: "postfix" }));
    return ordinary(m("mrow", {}, ...nodes));
  }

  // Text and tables

  /** The words of `\text`, in which dollar signs enclose formulas. */
  words(attributes) {
    this.enter();
    this.expect("{");
    const nodes = [];
    while (!this.run(/\}/y)) {
      const { at } = this;
      const plain = this.run(/(?:\\[^a-zA-Z]|[^$\\{}])+/y);
      const name = plain ? "" : this.run(/\\[a-zA-Z]+/y).slice(1);
      if (plain) {
        const shown = plain
          .replace(/\\!/g, "")
          .replace(/\\[,:; ]|[\s~]/g, "\u00a0")
          .replace(/\\(?=.)/g, "");
        nodes.push(this.leaf("mtext", attributes, shown, at));
      } else if (TEXTS.has(name)) {
        nodes.push(this.words(TEXTS.get(name)).node);
      } else if (SPACES.has(name)) {
        nodes.push(space(SPACES.get(name)));
      } else if (!name && this.take("{")) {
        this.at = at;
        nodes.push(this.words(attributes).node);
      } else if (!name && this.take("$")) {
        nodes.push(this.row());
        this.expect("$");
      } else {
        throw new Unknown(name);
      }
    }
    this.depth -= 1;
    return ordinary(group(nodes));
  }

  /** Rows of cells up to the end of an environment, a group or the formula. */
  rows() {
    const rows = [];
    for (;;) {
      const row = { cells: [], ruled: false };
      while (this.take("\\hline")) row.ruled = true;
      do row.cells.push(this.row());
      while (this.take("&"));
      rows.push(row);
      if (!this.take("\\\\") && !this.take("\\cr")) break;
      this.run(/\*?(?:\[-?[\d.]+ ?[a-z]{2}\])?/y);
    }
    const last = rows.at(-1);
    if (rows.length > 1 && last.cells.length === 1 && last.cells[0].childNodes.length === 0) {
      rows.pop();
      if (last.ruled) rows.at(-1).ends = true;
    }
    return rows;
  }

  /** `columns` holds a class for each column. */
  table(rows, attributes, columns = []) {
    const lines = rows.map(({ cells, ruled, ends }) => {
      const classes = [ruled && "ruled", ends && "ends"].filter(Boolean).join(" ");
      const row = cells.map((cell, i) => m("mtd", columns[i] ? { class: columns[i] } : {}, cell));
      return m("mtr", classes ? { class: classes } : {}, ...row);
    });
    return m("mtable", attributes, ...lines);
  }

  environment() {
    const name = this.raw().text;
    const found = ENVIRONMENTS.get(withoutStar(name));
    if (!found) throw new Unknown(name);
    this.enter();
    this.run(/\[[tbc]\]/y);
    const argument = found.argument ? this.raw().text : "";
    const columns = found.argument === "columns" ? columnClasses(argument) : found.columns;
    const rows = this.rows();
    this.expect("\\end");
    if (this.raw().text !== name) throw new Unknown(name);
    this.depth -= 1;
    const table = this.table(rows, found.table, columns);
    if (!found.fences) return ordinary(table);
    const [open, close] = found.fences.map((text) => text && m("mo", { stretchy: "true" }, text));
    return ordinary(m("mrow", {}, ...[open, table, close].filter(Boolean)));
  }
}

/** The classes of the columns that an array's argument such as `l|cr` describes. */
function columnClasses(text) {
  const classes = [];
  let bar = "";
  for (const sign of text.replace(/@\{[^}]*\}|\s/g, "")) {
    if (sign === "|") {
      bar = "bar";
    } else if ("lcr".includes(sign)) {
      classes.push([{ l: "left", c: "", r: "right" }[sign], bar].filter(Boolean).join(" "));
      bar = "";
    } else {
      throw new Unknown(sign);
    }
  }
  if (bar && classes.length > 0) classes.push(classes.pop().concat(" end-bar").trim());
  return classes;
}

// The commands of LaTeX's mathematics that are neither symbols nor tables.

import { Unknown, m, ordinary, space } from "./mathml.js";

const fraction = (above, below) => m("mfrac", {}, above, below);
const stacked = (above, below) => m("mfrac", { linethickness: "0" }, above, below);
const parenthesised = (node, stretchy) => m("mrow", {}, m("mo", { stretchy }, "("), node, m("mo", { stretchy }, ")"));
const choose = (above, below) => parenthesised(stacked(above, below), "true");

/** Commands between what is above and what is below. */
export const FRACTIONS = new Map([
  ["over", fraction],
  ["atop", stacked],
  ["choose", choose],
]);

const DISPLAY = { displaystyle: "true", scriptlevel: "0" };
const TEXT = { displaystyle: "false", scriptlevel: "0" };
export const STYLES = new Map([
  ["displaystyle", DISPLAY],
  ["textstyle", TEXT],
  ["scriptstyle", { displaystyle: "false", scriptlevel: "1" }],
  ["scriptscriptstyle", { displaystyle: "false", scriptlevel: "2" }],
]);

const nothing = () => null;
const skipArgument = (parser) => {
  parser.raw();
  return null;
};
const withTwo = (make, style) => (parser) => {
  const above = parser.argument();
  const node = make(above, parser.argument());
  return ordinary(style ? m("mstyle", style, node) : node);
};
const enclosed = (tag, attributes) => (parser) => ordinary(m(tag, attributes, parser.argument()));
/** The argument as an item of another kind. */
const kinded = (kind, limits) => (parser) => ({ node: parser.argument(), kind, limits });

/** Commands whose argument is words. */
export const TEXTS = new Map([
  ...["text", "textrm", "textnormal", "textup", "mbox", "hbox"].map((name) => [name, {}]),
  ["textbf", { class: "bold" }],
  ["textit", { class: "italic" }],
  ["emph", { class: "italic" }],
  ["textsf", { class: "sans" }],
  ["texttt", { class: "mono" }],
]);

/** Lengths in em. */
const UNITS = { em: 1, ex: 0.43, pt: 0.1, mu: 1 / 18, cm: 2.85, mm: 0.285, px: 0.075 };

function spaceWide(length) {
  const width = /^\s*(-?[\d.]+)\s*(em|ex|pt|mu|cm|mm|px)\s*$/.exec(length);
  if (!width) throw new Unknown(length);
  const em = Math.min(Number(width[1]) * UNITS[width[2]], 20);
  return em > 0 ? { node: space(Number(em.toFixed(4))), kind: "space" } : null;
}

/** The argument between delimiters that are as high as it. */
const between = (open, close) => (parser) => {
  const node = parser.argument();
  return ordinary(m("mrow", {}, m("mo", { form: "prefix" }, open), node, m("mo", { form: "postfix" }, close)));
};
const letter = (text) => (parser) => ordinary(parser.leaf("mi", {}, text));

/** What reads the arguments of a command, by its name: from the parser to an item, or to null if nothing is shown. */
export const COMMANDS = new Map(
  Object.entries({
    frac: withTwo(fraction),
    dfrac: withTwo(fraction, DISPLAY),
    cfrac: withTwo(fraction, DISPLAY),
    tfrac: withTwo(fraction, TEXT),
    binom: withTwo(choose),
    dbinom: withTwo(choose, DISPLAY),
    tbinom: withTwo(choose, TEXT),
    sqrt(parser) {
      const index = parser.option();
      const content = parser.argument();
      return ordinary(index ? m("mroot", {}, content, index) : m("msqrt", {}, content));
    },
    overset: over,
    stackrel: over,
    underset(parser) {
      const below = parser.argument();
      return { node: m("munder", {}, parser.argument(), below), kind: "relation" };
    },
    substack(parser) {
      parser.expect("{");
      const rows = parser.rows();
      parser.expect("}");
      return ordinary(parser.table(rows, {}));
    },
    operatorname(parser) {
      const limits = parser.text[parser.at] === "*";
      if (limits) parser.at += 1;
      const { from, text: name } = parser.raw();
      const words = name.replace(/\\[,;: !]|~/g, "\u00a0").trim();
      if (/[\\{}$^_&]/.test(words)) throw new Unknown(name);
      parser.begin = from;
      return parser.operator(words, limits);
    },
    left: (parser) => parser.left(),
    begin: (parser) => parser.environment(),
    // Fonts seldom have a line that stretches.
    overline: enclosed("mrow", { class: "overline" }),
    underline: enclosed("mrow", { class: "underline" }),
    boxed: enclosed("mrow", { class: "boxed" }),
    fbox: (parser) => ordinary(m("mrow", { class: "boxed" }, parser.words({}).node)),
    cancel: enclosed("mrow", { class: "cancel" }),
    bcancel: enclosed("mrow", { class: "cancel back" }),
    xcancel: enclosed("mrow", { class: "cancel cross" }),
    phantom: enclosed("mphantom", {}),
    hphantom: (parser) => ordinary(m("mpadded", { height: "0", depth: "0" }, m("mphantom", {}, parser.argument()))),
    vphantom: (parser) => ordinary(m("mpadded", { width: "0" }, m("mphantom", {}, parser.argument()))),
    smash: enclosed("mrow", {}),
    ensuremath: enclosed("mrow", {}),
    not(parser) {
      const item = parser.atom();
      const leaf = item?.node.firstChild;
      if (leaf?.nodeType !== Node.TEXT_NODE) throw new Unknown("not");
      leaf.data = `${leaf.data}\u0338`.normalize("NFC");
      return item;
    },
    mod: (parser) => ordinary(m("mrow", {}, space(1), m("mi", {}, "mod"), space(0.3333), parser.argument())),
    bmod: (parser) => ({ node: parser.leaf("mo", { lspace: "0.2222em", rspace: "0.2222em" }, "mod"), kind: "binary" }),
    pmod(parser) {
      const modulus = m("mrow", {}, m("mi", {}, "mod"), space(0.3333), parser.argument());
      return ordinary(m("mrow", {}, space(1), parenthesised(modulus, "false")));
    },
    pod: (parser) => ordinary(m("mrow", {}, space(1), parenthesised(parser.argument(), "false"))),
    tag(parser) {
      parser.take("*");
      const label = parser.words({}).node;
      return { node: m("mrow", {}, space(2), parenthesised(label, "false")), kind: "space" };
    },
    mathop: kinded("function", true),
    mathrel: kinded("relation"),
    mathbin: kinded("ordinary"),
    mathord: kinded("ordinary"),
    mathinner: kinded("ordinary"),
    mathopen: kinded("open"),
    mathclose: kinded("close"),
    mathpunct: kinded("punctuation"),
    // Colours are left out: the page has two themes, and a colour for one may not be legible in the other.
    textcolor(parser) {
      parser.raw();
      return ordinary(parser.argument());
    },
    colorbox(parser) {
      parser.raw();
      return parser.words({});
    },
    color: skipArgument,
    label: skipArgument,
    require: skipArgument,
    hspace(parser) {
      parser.take("*");
      return spaceWide(parser.raw().text);
    },
    mspace: (parser) => spaceWide(parser.raw().text),
    kern: (parser) => spaceWide(parser.run(/\s*-?[\d.]+\s*[a-z]{2}/y)),
    mkern: (parser) => spaceWide(parser.run(/\s*-?[\d.]+\s*[a-z]{2}/y)),
    ref: (parser) => ordinary(m("mtext", {}, parser.raw().text)),
    eqref: (parser) => ordinary(m("mtext", {}, `(${parser.raw().text})`)),
    // Of packages that models assume.
    abs: between("|", "|"),
    norm: between("‖", "‖"),
    bra: between("⟨", "|"),
    ket: between("|", "⟩"),
    braket: between("⟨", "⟩"),
    R: letter("ℝ"),
    N: letter("ℕ"),
    Z: letter("ℤ"),
    Q: letter("ℚ"),
    C: letter("ℂ"),
    nonumber: nothing,
    notag: nothing,
    relax: nothing,
    strut: nothing,
    mathstrut: nothing,
    allowbreak: nothing,
    nobreak: nothing,
    noindent: nothing,
    hfill: nothing,
    tiny: nothing,
    small: nothing,
    normalsize: nothing,
    large: nothing,
    Large: nothing,
    "/": nothing,
  }),
);

function over(parser) {
  const above = parser.argument();
  return { node: m("mover", {}, parser.argument(), above), kind: "relation" };
}

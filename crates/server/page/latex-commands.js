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
const text = (attributes) => (parser) => parser.words(attributes);
/** The argument as an item of another kind. */
const kinded = (kind, limits) => (parser) => ({ node: parser.argument(), kind, limits });

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
    text: text({}),
    textrm: text({}),
    textnormal: text({}),
    mbox: text({}),
    hbox: text({}),
    textbf: text({ class: "bold" }),
    textit: text({ class: "italic" }),
    emph: text({ class: "italic" }),
    textsf: text({ class: "sans" }),
    texttt: text({ class: "mono" }),
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
      const width = /^\s*(-?[\d.]+)\s*(em|ex|pt|mu|cm|mm|px)\s*$/.exec(parser.raw().text);
      if (!width) throw new Unknown("hspace");
      const em = Number(width[1]) * { em: 1, ex: 0.43, pt: 0.1, mu: 1 / 18, cm: 2.85, mm: 0.285, px: 0.075 }[width[2]];
      return em > 0 ? { node: space(Number(Math.min(em, 20).toFixed(4))), kind: "space" } : null;
    },
    nonumber: nothing,
    notag: nothing,
    relax: nothing,
    strut: nothing,
    mathstrut: nothing,
    allowbreak: nothing,
    nobreak: nothing,
    noindent: nothing,
    "/": nothing,
  }),
);

function over(parser) {
  const above = parser.argument();
  return { node: m("mover", {}, parser.argument(), above), kind: "relation" };
}

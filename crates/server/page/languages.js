// What the highlighter knows of each language: rules in the order in which they are tried. No rule's expression has groups.

const set = (text) => new Set(text.split(" "));
const NUMBER = {
  style: "number",
  match: String.raw`\b(?:0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)\w*`,
};
const WORD = { style: "word", match: String.raw`[A-Za-z_$][\w$]*` };
const DOUBLE = { style: "string", match: String.raw`"(?:[^"\\]|\\.)*"?` };
const SINGLE = { style: "string", match: String.raw`'(?:[^'\\]|\\.)*'?` };
const SLASHES = { style: "comment", match: String.raw`\/\/.*` };
const STARRED = { style: "comment", match: String.raw`\/\*`, end: String.raw`\*\/` };
const HASH = { style: "comment", match: String.raw`#.*` };

function language(rules, keywords = "", { constants = "true false null", fold = false, types = true } = {}) {
  // Rules are tried at each place in their order: one expression with a group for each.
  const pattern = new RegExp(rules.map((rule) => `(${rule.match})`).join("|"), "g");
  return { pattern, list: rules, words: { keywords: set(keywords), constants: set(constants), fold, types } };
}

const C_LIKE = language(
  [STARRED, SLASHES, { style: "meta", match: String.raw`^\s*#\s*\w+` }, DOUBLE, SINGLE, NUMBER, WORD],
  "abstract as async auto await bool boolean break byte case catch chan char class const constexpr continue default defer delete do " +
    "double else enum explicit extends extern final finally float for foreach fun func go goto if implements import in inline int " +
    "interface internal is let long map namespace new noexcept operator out override package private protected public range " +
    "readonly record ref return sealed select short signed sizeof static string struct super switch template this throw throws try " +
    "type typedef typename union unsigned using val var virtual void volatile when where while yield",
  { constants: "true false null nil nullptr NULL iota" },
);

const RUST = language(
  [
    STARRED,
    SLASHES,
    { style: "meta", match: String.raw`#!?\[[^\]]*\]?` },
    { style: "string", match: String.raw`\bb?r#*"`, end: String.raw`"#*` },
    { style: "string", match: String.raw`b?"(?:[^"\\]|\\.)*$`, end: String.raw`"` },
    { style: "string", match: String.raw`b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\]|\\[^']*)'` },
    { style: "type", match: String.raw`'[a-z_]\w*` },
    NUMBER,
    WORD,
  ],
  "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return self " +
    "Self static struct super trait type unsafe use where while bool char str u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize " +
    "f32 f64",
  { constants: "true false None Some Ok Err" },
);

const PYTHON = language(
  [
    HASH,
    { style: "string", match: String.raw`\b[rbfuRBFU]{0,2}"""|"""`, end: `"""` },
    { style: "string", match: String.raw`\b[rbfuRBFU]{0,2}'''|'''`, end: "'''" },
    { style: "string", match: String.raw`\b[rbfuRBFU]{1,2}"(?:[^"\\]|\\.)*"?|\b[rbfuRBFU]{1,2}'(?:[^'\\]|\\.)*'?` },
    DOUBLE,
    SINGLE,
    { style: "meta", match: String.raw`^\s*@[\w.]+` },
    NUMBER,
    WORD,
  ],
  "and as assert async await break case class continue def del elif else except finally for from global if import in is lambda " +
    "match nonlocal not or pass raise return try while with yield",
  { constants: "True False None self cls" },
);

const SCRIPT = language(
  [
    STARRED,
    SLASHES,
    { style: "string", match: "`(?:[^`\\\\]|\\\\.)*`" },
    { style: "string", match: "`", end: "`" },
    DOUBLE,
    SINGLE,
    NUMBER,
    WORD,
  ],
  "abstract as async await break case catch class const continue debugger declare default delete do else enum export extends " +
    "finally for from function get if implements import in instanceof interface keyof let namespace new of private protected " +
    "public readonly return satisfies set static super switch this throw try type typeof var void while with yield any boolean " +
    "never number string unknown",
  { constants: "true false null undefined NaN Infinity" },
);

const SHELL = language(
  [
    { style: "comment", match: String.raw`(?<=^|\s)#.*` },
    { style: "string", match: String.raw`"(?:[^"\\]|\\.)*"|'[^']*'` },
    { style: "type", match: String.raw`\$\{[^}]*\}?|\$[\w@#?*!-]+` },
    { style: "meta", match: String.raw`(?<=\s)--?[A-Za-z][\w-]*` },
    { style: "word", match: String.raw`[A-Za-z_][\w-]*` },
  ],
  "if then else elif fi for in do done while until case esac function return local export set unset readonly shift break continue " +
    "exit trap source alias cd echo sudo",
  { constants: "true false", types: false },
);

const JSON_LIKE = language([
  SLASHES,
  { style: "type", match: String.raw`"(?:[^"\\]|\\.)*"(?=\s*:)` },
  DOUBLE,
  NUMBER,
  WORD,
]);

const CONFIG = language(
  [
    HASH,
    { style: "type", match: String.raw`^\s*(?:-\s+)?[\w.-]+(?=\s*[:=])` },
    { style: "meta", match: String.raw`^\s*\[.*` },
    DOUBLE,
    SINGLE,
    NUMBER,
    WORD,
  ],
  "",
  { constants: "true false null yes no on off", types: false },
);

const SQL = language(
  [
    { style: "comment", match: "--.*" },
    STARRED,
    { style: "string", match: "'(?:[^']|'')*'?" },
    { style: "type", match: String.raw`"[^"]*"?` },
    NUMBER,
    WORD,
  ],
  "add all alter and as asc begin between by case check column commit constraint create cross database default delete desc distinct " +
    "drop else end exists explain foreign from full group having if in index inner insert into is join key left like limit not " +
    "offset on or order outer over partition primary references returning right rollback select set table then transaction " +
    "trigger union unique update using values view when where with integer int text varchar char boolean date timestamp numeric " +
    "serial bigint real",
  { constants: "true false null", fold: true, types: false },
);

const MARKUP = language([
  { style: "comment", match: "<!--", end: "-->" },
  { style: "meta", match: "<![A-Za-z][^>]*>?" },
  { style: "keyword", match: String.raw`<\/?[A-Za-z][\w:.-]*|\/?>` },
  { style: "number", match: String.raw`&[\w#]+;` },
  { style: "type", match: String.raw`(?<![\w:@.-])[\w:@.-]+(?==["'])` },
  { style: "string", match: String.raw`(?<==)(?:"[^"]*"?|'[^']*'?)` },
]);

const CSS = language(
  [
    STARRED,
    DOUBLE,
    SINGLE,
    { style: "meta", match: String.raw`@[\w-]+` },
    { style: "type", match: String.raw`(?<![\w-])(?:--[\w-]+|[\w-]+(?=\s*:\s))` },
    { style: "number", match: String.raw`#[\da-fA-F]{3,8}\b|-?\b[\d.]+[a-z%]*` },
    { style: "keyword", match: String.raw`[.#][A-Za-z][\w-]*` },
  ],
  "",
  { types: false },
);

const DIFF = language([
  { style: "meta", match: String.raw`^(?:@@|diff|index|---|\+\+\+).*` },
  { style: "string", match: String.raw`^\+.*` },
  { style: "removed", match: "^-.*" },
]);

const NAMES = [
  [
    C_LIKE,
    "c h cpp c++ cc hpp cxx cs csharp java kotlin kt go golang swift scala dart php objc zig glsl wgsl hlsl cuda cu proto",
  ],
  [RUST, "rust rs"],
  [PYTHON, "python py python3 ipython"],
  [SCRIPT, "js javascript ts typescript jsx tsx mjs node"],
  [SHELL, "sh bash shell zsh console fish dockerfile makefile make"],
  [JSON_LIKE, "json jsonc json5 jsonl"],
  [CONFIG, "toml yaml yml ini conf properties env"],
  [SQL, "sql sqlite postgres postgresql mysql"],
  [MARKUP, "html xml svg vue svelte xhtml"],
  [CSS, "css scss less"],
  [DIFF, "diff patch"],
];
const LANGUAGES = new Map(NAMES.flatMap(([rules, names]) => names.split(" ").map((name) => [name, rules])));

/** The rules of a language, or undefined for one that is not known. */
export const languageOf = (name) => LANGUAGES.get(name);

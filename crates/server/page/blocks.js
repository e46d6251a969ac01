// Splits lines of markdown into blocks. A line is { text, at }: its text without what encloses it, and where that begins in the
// source.

import { formulaEnd } from "./math.js";

const FENCE = /^ {0,12}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const MARKER = /^( {0,12})([-*+]|\d{1,9}[.)])(?:([ \t]+)|$)/;
const UNDERLINE = /^ {0,3}(?:=+|-{2,})[ \t]*$/;
const DELIMITERS = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

export function splitLines(text, from = 0) {
  const lines = [];
  for (let at = from; at < text.length;) {
    const end = text.indexOf("\n", at);
    const stop = end < 0 ? text.length : end;
    lines.push({ text: text.slice(at, text[stop - 1] === "\r" ? stop - 1 : stop), at, complete: end >= 0 });
    at = stop + 1;
  }
  return lines;
}

const blank = (line) => !/\S/.test(line.text);
const indent = (text) => text.match(/^ */)[0].length;
const cut = (line, count) => ({ text: line.text.slice(count), at: line.at + count, complete: line.complete });

/** The blocks of these lines: { kind, first, end, … }, `first` and `end` being indices of lines. */
export function blocks(lines) {
  const found = [];
  for (let i = 0; i < lines.length;) {
    if (blank(lines[i])) {
      i += 1;
      continue;
    }
    const block =
      fence(lines, i) ??
      heading(lines, i) ??
      rule(lines, i) ??
      quote(lines, i) ??
      list(lines, i) ??
      table(lines, i) ??
      paragraph(lines, i);
    found.push({ ...block, first: i });
    i = block.end;
  }
  return found;
}

function fence(lines, i) {
  const open = FENCE.exec(lines[i].text);
  if (!open) return null;
  const [, mark, info] = open;
  const width = indent(lines[i].text);
  let end = i + 1;
  let closed = false;
  for (; end < lines.length && !closed; end += 1) {
    const text = lines[end].text.trim();
    closed = text.length >= mark.length && text === mark[0].repeat(text.length);
  }
  const inside = lines.slice(i + 1, closed ? end - 1 : end);
  const body = inside.map((line) => cut(line, Math.min(width, indent(line.text))));
  return {
    kind: "fence",
    language: info
      .trim()
      .split(/[\s{,:]/)[0]
      .toLowerCase(),
    body,
    closed,
    end,
  };
}

function heading(lines, i) {
  const open = HEADING.exec(lines[i].text);
  if (!open) return null;
  const line = cut(lines[i], open[0].length);
  return {
    kind: "heading",
    level: open[1].length,
    body: [{ ...line, text: line.text.replace(/[ \t]+#+[ \t]*$/, "") }],
    end: i + 1,
  };
}

function rule(lines, i) {
  return RULE.test(lines[i].text) ? { kind: "rule", end: i + 1 } : null;
}

function quote(lines, i) {
  if (!QUOTE.test(lines[i].text)) return null;
  const body = [];
  let end = i;
  for (; end < lines.length; end += 1) {
    const open = QUOTE.exec(lines[end].text);
    if (!open && (blank(lines[end]) || begins(lines[end]))) break;
    body.push(open ? cut(lines[end], open[0].length) : lines[end]);
  }
  return { kind: "quote", body, end };
}

function marker(line) {
  if (RULE.test(line.text)) return null;
  const open = MARKER.exec(line.text);
  if (!open) return null;
  const [all, space, sign, gap] = open;
  const ordered = /\d/.test(sign);
  const width = gap === undefined || gap.length > 4 ? space.length + sign.length + 1 : all.length;
  return { ordered, number: parseInt(sign, 10), column: space.length, width, sign: sign.at(-1) };
}

function list(lines, i) {
  const first = marker(lines[i]);
  if (!first) return null;
  const items = [];
  let loose = false;
  let end = i;
  while (end < lines.length) {
    const open = marker(lines[end]);
    if (!open || open.ordered !== first.ordered || open.sign !== first.sign) break;
    const inner = Math.min(open.width, open.column + 2);
    const body = [cut(lines[end], Math.min(open.width, lines[end].text.length))];
    let next = end + 1;
    let gap = false;
    for (; next < lines.length; next += 1) {
      const line = lines[next];
      if (blank(line)) {
        gap = true;
      } else if (indent(line.text) < inner && (gap || begins(line))) {
        break;
      } else {
        if (gap) loose = true;
        gap = false;
      }
      body.push(blank(line) ? { ...line, text: "" } : cut(line, Math.min(open.width, indent(line.text))));
    }
    while (body.length > 1 && blank(body.at(-1))) body.pop();
    items.push({ body });
    end = next;
    if (gap && next < lines.length) {
      const after = marker(lines[next]);
      if (after && after.ordered === first.ordered && after.sign === first.sign) loose = true;
    }
  }
  return { kind: "list", ordered: first.ordered, start: first.number, items, loose, end };
}

/** Whether a line begins a block of its own even directly after a paragraph. */
function begins(line) {
  const { text } = line;
  if (FENCE.test(text) || HEADING.test(text) || RULE.test(text) || QUOTE.test(text)) return true;
  const open = marker(line);
  return open !== null && line.text.trim().length > 1;
}

function table(lines, i) {
  if (!lines[i].text.includes("|") || i + 1 >= lines.length) return null;
  const under = lines[i + 1].text;
  if (!DELIMITERS.test(under) || !under.includes("-")) return null;
  const head = cells(lines[i]);
  const sides = cells(lines[i + 1]).map(({ text }) => {
    const [left, right] = [text.startsWith(":"), text.endsWith(":")];
    return left && right ? "center" : right ? "right" : "";
  });
  if (head.length !== sides.length) return null;
  const rows = [];
  let end = i + 2;
  for (
    ;
    end < lines.length && !blank(lines[end]) && !(begins(lines[end]) && !lines[end].text.includes("|"));
    end += 1
  ) {
    rows.push(cells(lines[end]).slice(0, head.length));
  }
  return { kind: "table", head, sides, rows, end };
}

/** The cells of a row; a bar in code or after a backslash does not divide. */
function cells(line) {
  const { text } = line;
  const found = [];
  let from = /^[ \t]*\|/.exec(text)?.[0].length ?? 0;
  let code = false;
  const push = (to) => {
    const lead = text.slice(from, to).match(/^\s*/)[0].length;
    found.push({ text: text.slice(from, to).trim(), at: line.at + from + lead });
  };
  for (let i = from; i < text.length; i += 1) {
    if (text[i] === "\\") i += 1;
    else if (text[i] === "`") code = !code;
    else if (text[i] === "|" && !(code && text.indexOf("`", i) >= 0)) {
      push(i);
      from = i + 1;
    }
  }
  if (/\S/.test(text.slice(from))) push(text.length);
  return found;
}

function paragraph(lines, i) {
  let end = formulaEnd(lines, i) + 1;
  for (; end < lines.length && !blank(lines[end]); end = formulaEnd(lines, end) + 1) {
    if (UNDERLINE.test(lines[end].text)) {
      const level = lines[end].text.includes("=") ? 1 : 2;
      return { kind: "heading", level, body: trimmed(lines.slice(i, end)), end: end + 1 };
    }
    if (begins(lines[end]) || table(lines, end)) break;
  }
  return { kind: "paragraph", body: trimmed(lines.slice(i, end)), end };
}

/** Lines of a paragraph without their indentation. */
function trimmed(lines) {
  return lines.map((line) => cut(line, line.text.length - line.text.trimStart().length));
}

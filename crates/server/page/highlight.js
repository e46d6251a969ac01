// Colours for code: a small tokenizer, line by line, that carries over what spans lines.

import { languageOf } from "./languages.js";

/** Lines longer than this stay plain. */
const LONGEST = 5000;

export class Highlighter {
  constructor(language) {
    this.language = language;
    this.rules = languageOf(language);
    /** The expression that ends what an earlier line began, and its style. */
    this.until = null;
  }

  /** The parts [style, text] of the next line. */
  line(text) {
    const [parts, until] = this.#parts(text);
    this.until = until;
    return parts;
  }

  /** The same for a line that is still growing. */
  peek(text) {
    return this.#parts(text)[0];
  }

  #parts(text) {
    if (!this.rules || text.length > LONGEST) return [[["", text]], this.until];
    const parts = [];
    const push = (style, part) => {
      if (part === "") return;
      const last = parts[parts.length - 1];
      if (last && last[0] === style) last[1] += part;
      else parts.push([style, part]);
    };
    const { pattern, list, words } = this.rules;
    let until = this.until;
    let at = 0;
    while (at < text.length) {
      if (until) {
        const close = new RegExp(until.end, "g");
        close.lastIndex = at;
        const end = close.exec(text) ? close.lastIndex : -1;
        push(until.style, text.slice(at, end < 0 ? text.length : end));
        if (end < 0) return [parts, until];
        at = end;
        until = null;
        continue;
      }
      pattern.lastIndex = at;
      const found = pattern.exec(text);
      if (!found) {
        push("", text.slice(at));
        break;
      }
      push("", text.slice(at, found.index));
      const rule = list[found.slice(1).findIndex((group) => group !== undefined)];
      if (rule.end) {
        push(rule.style, found[0]);
        until = rule;
      } else {
        push(rule.style === "word" ? styleOf(found[0], text[pattern.lastIndex], words) : rule.style, found[0]);
      }
      at = found.index + found[0].length;
    }
    return [parts, until];
  }
}

function styleOf(word, next, words) {
  if (words.keywords.has(words.fold ? word.toLowerCase() : word)) return "keyword";
  if (words.constants.has(words.fold ? word.toLowerCase() : word)) return "number";
  if (words.types && /^[A-Z]\w*[a-z]/.test(word)) return "type";
  return next === "(" || next === "!" ? "call" : "";
}

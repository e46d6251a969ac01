// Token probabilities in the rendered answer: unsure tokens are shaded, and the one under the mouse or the keyboard's cursor
// shows its alternatives. Shades and cursor are custom highlights, so that the text's elements stay as they are.

import * as app from "./app.js";
import { Alternatives } from "./alternatives.js";
import { announce } from "./dom.js";
import { Places, sourceAt } from "./places.js";
import { settings } from "./settings.js";
import { percent, tokenAt, visible } from "./tokens.js";

/** Tokens below these probabilities get the shades 1, 2 and 3. */
const SHADES = [
  [0.7, "unsure-1"],
  [0.4, "unsure-2"],
  [0.15, "unsure-3"],
];
const LINGER = 260;

export class Probabilities {
  constructor(transcript) {
    this.transcript = transcript;
    this.shades = new Map();
    this.popover = new Alternatives({ onPick: (choice) => this.#pick(choice), onClose: () => this.#leave() });
    this.at = null;
    /** Until when scrolling is this object's own. */
    this.still = 0;
    const { scroller } = transcript;
    scroller.addEventListener("mousemove", (event) => this.#hover(event));
    scroller.addEventListener("mouseleave", () => this.#leaveSoon());
    scroller.addEventListener("keydown", (event) => this.#key(event));
    scroller.addEventListener("click", (event) => this.#click(event));
    scroller.addEventListener("focusout", (event) => {
      if (!this.popover.element.contains(event.relatedTarget) && event.relatedTarget) this.#leave();
    });
    this.popover.element.addEventListener("mouseenter", () => clearTimeout(this.leaving));
    this.popover.element.addEventListener("mouseleave", () => this.#leaveSoon());
  }

  toggle() {
    app.change({ shown: !settings.shown });
    this.#leave();
    this.transcript.views.filter((view) => view.rendered).forEach((view) => view.show());
    announce(settings.shown ? "Token probabilities are shown." : "Token probabilities are hidden.");
  }

  /** An answer was rendered: its places on screen are new. */
  async rendered(view) {
    view.places = null;
    if (view.message.state === "running") view.tokens = null;
    if (!settings.shown || view.message.state === "running") {
      this.#shade(view, []);
      return;
    }
    view.tokens ??= await app.tokensOf(view.message);
    if (settings.shown && view.element.isConnected) this.#shade(view, view.tokens);
  }

  /** Another conversation is shown. */
  clear() {
    this.#leave();
    this.shades.forEach((highlight) => highlight.clear());
  }

  /** Shades of an answer replace those that it had. */
  #shade(view, tokens) {
    if (!window.CSS?.highlights) return;
    for (const range of view.shaded ?? []) this.shades.forEach((highlight) => highlight.delete(range));
    view.shaded = [];
    for (const token of tokens) {
      const probability = Math.exp(token.logprob);
      const name = token.picked ? "picked" : SHADES.filter(([below]) => probability < below).at(-1)?.[1];
      if (!name || !/\S/.test(view.message.content.slice(token.start, token.end))) continue;
      if (!this.shades.has(name)) {
        this.shades.set(name, new Highlight());
        CSS.highlights.set(name, this.shades.get(name));
      }
      for (const range of this.#places(view).ranges(shownPart(token, view.message.content))) {
        this.shades.get(name).add(range);
        view.shaded.push(range);
      }
    }
  }

  #places(view) {
    view.places ??= new Places(view.markdown.element);
    return view.places;
  }

  #viewAt(target) {
    const body = target.closest?.(".message > .markdown");
    const view = body && this.transcript.viewOf(body);
    return view?.tokens?.length > 0 && settings.shown && view.message.state !== "running" ? view : null;
  }

  #hover(event) {
    if (event.buttons !== 0 || this.popover.focused) return;
    const view = this.#viewAt(event.target);
    const index = view ? tokenAt(view.tokens, sourceAt(event.clientX, event.clientY)) : -1;
    if (index < 0) return void this.#leaveSoon();
    clearTimeout(this.leaving);
    if (this.at?.view === view && this.at.index === index) return;
    clearTimeout(this.coming);
    this.coming = setTimeout(() => this.#show(view, index), this.popover.open ? 60 : 120);
  }

  /** A tap does what the mouse does where there is none. */
  #click(event) {
    const view = this.#viewAt(event.target);
    if (!view || event.target.closest("a, button") || !getSelection().isCollapsed) return;
    const index = tokenAt(view.tokens, sourceAt(event.clientX, event.clientY));
    if (index >= 0) this.#show(view, index);
  }

  #key(event) {
    const view = event.target.matches?.(".message > .markdown") ? this.#viewAt(event.target) : null;
    if (!view || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = view.tokens.length - 1;
    const index = this.at?.view === view ? this.at.index : -1;
    const next = {
      ArrowRight: Math.min(last, index + 1),
      ArrowLeft: Math.max(0, index - 1),
      Home: 0,
      End: last,
    }[event.key];
    if (next !== undefined) {
      this.#scrollTo(view, view.tokens[next]);
      this.#show(view, next);
      this.#say(view.tokens[next]);
    } else if (["ArrowDown", "Enter"].includes(event.key) && this.popover.open) {
      this.popover.focus();
    } else if (event.key === "Escape" && this.popover.open) {
      event.stopPropagation();
      this.#leave();
    } else {
      return;
    }
    event.preventDefault();
  }

  #scrollTo(view, token) {
    const place = this.#places(view).rectangle(token);
    const box = this.transcript.scroller.getBoundingClientRect();
    if (!place || (place.top >= box.top && place.bottom <= box.bottom)) return;
    this.still = performance.now() + 200;
    this.transcript.pinned = false;
    this.transcript.scroller.scrollTop += place.top - box.top - box.height / 3;
  }

  #say(token) {
    const others = token.others.filter(([text]) => text !== token.text).slice(0, 3);
    announce(
      `${visible(token.text)}, ${percent(token.logprob)}. Instead: ${others.map(([text, p]) => `${visible(text)}, ${percent(p)}`).join("; ")}`,
    );
  }

  #show(view, index) {
    clearTimeout(this.coming);
    const token = view.tokens[index];
    const rectangle = this.#places(view).rectangle(token);
    if (!token || !rectangle) return;
    this.at = { view, index };
    if (window.CSS?.highlights)
      CSS.highlights.set("token", new Highlight(...this.#places(view).ranges(shownPart(token, view.message.content))));
    this.popover.show(token, rectangle, view.markdown.element);
  }

  #leaveSoon() {
    clearTimeout(this.coming);
    clearTimeout(this.leaving);
    if (this.at && !this.popover.focused) this.leaving = setTimeout(() => this.#leave(), LINGER);
  }

  /** Hides what is shown of a token, since the text scrolls away below it. */
  close() {
    if (this.at && !this.popover.focused && performance.now() > this.still) this.#leave();
  }

  #leave() {
    clearTimeout(this.coming);
    clearTimeout(this.leaving);
    this.at = null;
    if (window.CSS?.highlights) CSS.highlights.delete("token");
    this.popover.hide();
  }

  #pick(choice) {
    const { view, index } = this.at;
    this.#leave();
    app.pick(view.message, view.tokens, index, choice);
    announce(`The answer goes on from ${visible(choice[0])}.`);
  }
}

/** A token without the white space before its word, which would look odd in colour. */
function shownPart({ start, end }, content) {
  const text = content.slice(start, end);
  const lead = text.length - text.trimStart().length;
  return { start: lead < text.length ? start + lead : start, end };
}

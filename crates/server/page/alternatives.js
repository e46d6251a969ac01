// The popover with a token's alternatives. Choosing one lets the answer go on from there.

import { find, h, replace } from "./dom.js";
import { percent, visible } from "./tokens.js";

export class Alternatives {
  constructor({ onPick, onClose }) {
    this.onPick = onPick;
    this.onClose = onClose;
    this.element = h("div", {
      class: "alternatives",
      role: "dialog",
      "aria-label": "Alternatives to this token",
      hidden: true,
    });
    this.element.onkeydown = (event) => this.#key(event);
    this.element.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !this.element.contains(event.relatedTarget)) this.onClose();
    });
    find("#overlays").append(this.element);
  }

  get open() {
    return !this.element.hidden;
  }
  get focused() {
    return this.open && this.element.contains(document.activeElement);
  }

  /** Shows a token's alternatives below, or above, its place on screen; `origin` has the focus afterwards. */
  show(token, place, origin) {
    this.origin = origin;
    const others = token.others.some(([text]) => text === token.text)
      ? token.others
      : [[token.text, token.logprob], ...token.others];
    const rest = 1 - others.reduce((sum, [, logprob]) => sum + Math.exp(logprob), 0);
    replace(
      this.element,
      h(
        "div",
        { class: "alternatives-head" },
        h("code", {}, visible(token.text)),
        h("span", {}, token.picked ? "your choice" : percent(token.logprob)),
      ),
      h(
        "ul",
        { role: "list" },
        others.map((other) => h("li", {}, this.#row(token, other))),
      ),
      rest > 0.0005 && h("p", {}, `All others: ${percent(Math.log(rest))}`),
      h("p", { class: "hint" }, "Choose one: the answer goes on from there."),
    );
    this.element.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const below = place.bottom + 6 + height < window.innerHeight || place.top < height + 10;
    this.element.style.left = `${Math.max(8, Math.min(window.innerWidth - width - 8, place.left - 12))}px`;
    this.element.style.top = `${Math.max(8, below ? Math.min(place.bottom + 6, window.innerHeight - height - 8) : place.top - height - 6)}px`;
  }

  #row(token, [text, logprob]) {
    const taken = text === token.text;
    const bar = h("span", { class: "share" });
    bar.style.width = `${Math.max(1, 100 * Math.exp(logprob))}%`;
    const special = text === null || text === "" || /^<\|.*\|>$|^<\/s>$|^<[a-z_]+_of_[a-z]+>$/.test(text);
    const button = h(
      "button",
      { type: "button", class: taken ? "taken" : "", onclick: () => this.onPick([text, logprob]) },
      bar,
      h("span", { class: "visually-hidden" }, taken ? "Chosen: " : "Go on from "),
      h("code", {}, visible(text)),
      h("span", { class: "percent" }, percent(logprob)),
    );
    button.disabled = special;
    if (special) button.title = "This token is no text to go on from";
    return button;
  }

  focus() {
    this.element.querySelector("button:not(:disabled)")?.focus();
  }

  #key(event) {
    const buttons = [...this.element.querySelectorAll("button:not(:disabled)")];
    const at = buttons.indexOf(document.activeElement);
    if (event.key === "ArrowDown") buttons[Math.min(buttons.length - 1, at + 1)]?.focus();
    else if (event.key === "ArrowUp" && at > 0) buttons[at - 1].focus();
    else if (event.key === "Escape" || event.key === "ArrowUp") this.origin.focus();
    else return;
    if (event.key === "Escape") this.onClose();
    event.preventDefault();
    event.stopPropagation();
  }

  hide() {
    if (this.focused) this.origin.focus();
    this.element.hidden = true;
  }
}

// One message on screen.

import * as app from "./app.js";
import { asText, size } from "./attachments.js";
import { CodeBlock } from "./code-block.js";
import { splitLines } from "./blocks.js";
import { copy, h, replace, toast } from "./dom.js";
import { icon, iconButton } from "./icons.js";
import { MarkdownView } from "./markdown.js";
import { editor } from "./editor.js";
import { figures, waiting } from "./figures.js";
import { settings } from "./settings.js";

export class MessageView {
  constructor(message, conversation, callbacks) {
    Object.assign(this, { message, conversation, callbacks });
    const own = message.role === "user";
    this.element = h(
      "article",
      { class: `message ${own ? "user" : "assistant"}`, "aria-label": own ? "You" : "Answer" },
      message.content,
    );
    this.element.dataset.id = message.id;
    this.spent = 0;
    this.due = 0;
  }

  render() {
    this.element.textContent = "";
    if (this.message.role === "user") this.#renderQuestion();
    else this.#renderAnswer();
    this.rendered = true;
  }

  #renderQuestion() {
    const { message } = this;
    const files = (message.files ?? []).map((file) =>
      h(
        "details",
        { class: "file" },
        h("summary", {}, icon("file"), h("span", {}, file.name), h("small", {}, size(file.text.length))),
        h("pre", { tabIndex: 0, role: "group", "aria-label": file.name }, file.text),
      ),
    );
    const bubble = h(
      "div",
      { class: "bubble" },
      files,
      message.content && h("div", { class: "plain" }, message.content),
    );
    this.element.append(
      bubble,
      this.#bar([
        this.#turner(),
        iconButton("copy", "Copy", () => this.#copy()),
        iconButton("edit", "Edit and send again", () => this.#edit()),
      ]),
    );
  }

  #renderAnswer() {
    this.markdown = new MarkdownView();
    this.thought = new MarkdownView();
    this.reasoning = h(
      "details",
      { class: "reasoning", ontoggle: () => this.#think() },
      h("summary", {}, h("span")),
      this.thought.element,
    );
    this.tools = h("div", { class: "tools" });
    this.note = h("div", { class: "note" });
    this.wait = h(
      "p",
      { class: "wait" },
      h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")),
      h("span"),
    );
    this.bar = h("footer", { class: "bar" });
    this.element.append(this.reasoning, this.markdown.element, this.tools, this.wait, this.note, this.bar);
    this.show();
  }

  /** Brings an answer up to date, at most so often that it takes a quarter of the time. */
  update() {
    if (!this.rendered || this.due) return;
    const elapsed = performance.now() - (this.shownAt ?? 0);
    this.due = setTimeout(
      () =>
        requestAnimationFrame(() => {
          this.due = 0;
          this.show();
        }),
      Math.max(0, this.spent * 3 - elapsed),
    );
  }

  show() {
    if (!this.markdown) return;
    const { message } = this;
    const start = performance.now();
    const live = message.state === "running";
    this.markdown.update(message.content);
    this.element.classList.toggle("live", live);
    this.#think();
    this.#showTools();
    this.wait.hidden = !live || message.content !== "" || Boolean(message.reasoning) || Boolean(message.tools?.length);
    if (!this.wait.hidden) this.wait.lastChild.textContent = waiting();
    if (live) this.#liveBar();
    else this.#endBar();
    this.#readable();
    this.shownAt = performance.now();
    this.spent = this.shownAt - start;
  }

  #think() {
    const { message } = this;
    this.reasoning.hidden = !message.reasoning;
    if (!message.reasoning) return;
    const thinking = message.state === "running" && message.content === "";
    const seconds = Math.round((message.reasoningTime ?? 0) / 1000);
    const label = thinking ? "Thinking…" : seconds > 0 ? `Thought for ${seconds} s` : "Reasoning";
    this.reasoning.classList.toggle("active", thinking);
    if (this.reasoning.firstChild.firstChild.textContent !== label)
      this.reasoning.firstChild.firstChild.textContent = label;
    if (this.reasoning.open) this.thought.update(message.reasoning);
  }

  #showTools() {
    const tools = (this.message.tools ?? []).filter(Boolean);
    const shown = JSON.stringify(tools);
    if (shown === this.shownTools) return;
    this.shownTools = shown;
    replace(
      this.tools,
      tools.map((tool) => {
        let text = tool.arguments;
        try {
          text = JSON.stringify(JSON.parse(text), null, 2);
        } catch {
          /* still arriving, or not JSON: as it is */
        }
        const block = new CodeBlock({ language: "json", body: splitLines(`${text}\n`) });
        return h(
          "details",
          { class: "tool", open: true },
          h("summary", {}, "Calls ", h("code", {}, tool.name)),
          block.element,
        );
      }),
    );
  }

  #liveBar() {
    if (this.barState !== "live") {
      this.barState = "live";
      replace(this.bar, h("span", { class: "figures" }));
      replace(this.note);
    }
    this.bar.lastChild.textContent = figures(this.message);
  }

  #endBar() {
    this.barState = "end";
    const { message } = this;
    const tokens = iconButton("chart", "Token probabilities (Alt+P)", () => this.callbacks.onProbabilities(this));
    tokens.setAttribute("aria-pressed", String(settings.shown));
    const some = message.content !== "";
    replace(
      this.bar,
      this.#turner(),
      some && iconButton("copy", "Copy", () => this.#copy()),
      iconButton("redo", "Answer again", () => app.regenerate(message)),
      some && iconButton("edit", "Edit the answer", () => this.#edit()),
      some && settings.logprobs && tokens,
      h("span", { class: "figures" }, figures(message)),
    );
    this.#showNote();
  }

  #showNote() {
    const { message } = this;
    const goOn = message.content !== "" && h("button", { type: "button", onclick: () => app.goOn(message) }, "Go on");
    const again = h("button", { type: "button", onclick: () => app.regenerate(message) }, "Try again");
    this.note.className = `note ${message.error ? "" : "passing"}`;
    if (message.error) {
      const { kind, title, advice } = message.error;
      // The request asks for the key.
      if (kind === "key") again.textContent = "Enter the key";
      replace(
        this.note,
        h(
          "div",
          { class: "trouble", role: "group", "aria-label": "Error" },
          h("strong", {}, title),
          h("p", {}, advice),
          h("div", { class: "actions" }, again, goOn),
        ),
      );
    } else if (message.state === "length") {
      replace(this.note, h("p", {}, `The ${message.completes ? "text" : "answer"} reached its longest length.`), goOn);
    } else if (message.state === "stopped") {
      replace(this.note, h("p", {}, "Stopped."), goOn || again);
    } else if (message.edited) {
      replace(this.note, h("p", {}, "You wrote this text."), goOn);
    } else if (message.content === "" && !message.tools?.length && !message.reasoning) {
      replace(this.note, h("p", {}, "The answer is empty."), again);
    } else if (message.completes) {
      replace(this.note, h("p", {}, "The model ended the text."), goOn);
    } else {
      replace(this.note);
    }
  }

  /** While probabilities are shown, an answer can be focused and the arrow keys walk through its tokens. */
  #readable() {
    const body = this.markdown.element;
    const on = settings.shown && this.message.state !== "running" && this.message.content !== "";
    if (on) body.tabIndex = 0;
    else body.removeAttribute("tabindex");
    for (const [name, value] of [
      ["role", "group"],
      ["aria-label", "Answer: left and right go through its tokens, down lists alternatives"],
    ]) {
      if (on) body.setAttribute(name, value);
      else body.removeAttribute(name);
    }
    this.callbacks.onRendered?.(this);
  }

  #bar(children) {
    return h("footer", { class: "bar" }, children);
  }

  /** ‹ 2/3 › where there are branches. */
  #turner() {
    const { ids, index } = this.conversation.branches(this.message);
    if (ids.length < 2) return false;
    const go = (by) => this.callbacks.onTurn(this.message, by);
    const [back, forward] = [
      iconButton("back", "Previous branch", () => go(-1)),
      iconButton("forward", "Next branch", () => go(1)),
    ];
    back.disabled = index === 0;
    forward.disabled = index === ids.length - 1;
    return h(
      "span",
      { class: "turner", role: "group", "aria-label": "Branches" },
      back,
      h("span", {}, `${index + 1}/${ids.length}`),
      forward,
    );
  }

  async #copy() {
    toast(
      (await copy(asText(this.message)))
        ? "Copied."
        : "The browser did not allow copying. Select the text and copy it yourself.",
    );
  }

  #edit() {
    this.element.classList.add("editing");
    const close = () => {
      this.element.classList.remove("editing");
      this.render();
      this.element.querySelector(".icon-button:not(:disabled)")?.focus();
    };
    editor(this.element, this.message, close);
  }
}

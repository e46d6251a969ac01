// The field in which a message is written, with its files.

import * as app from "./app.js";
import { readFiles, size } from "./attachments.js";
import { find, h, replace, toast } from "./dom.js";
import { ContextMeter } from "./context.js";
import { icon, iconButton } from "./icons.js";
import { model } from "./status.js";

export class Composer {
  constructor({ onSettings }) {
    this.files = [];
    this.area = h("textarea", { id: "message", rows: 1, placeholder: "Write a message", "aria-label": "Message" });
    this.area.setAttribute("aria-describedby", "message-hint");
    this.chips = h("ul", { class: "chips", role: "list", hidden: true, "aria-label": "Attached files" });
    this.picker = h("input", { type: "file", multiple: true, hidden: true, onchange: () => this.#picked() });
    this.button = h("button", { type: "submit", class: "send" });
    this.meter = new ContextMeter();
    this.form = find("#composer");
    this.form.append(
      this.meter.note,
      this.chips,
      this.area,
      h(
        "div",
        { class: "composer-row" },
        iconButton("attach", "Attach text files", () => this.picker.click()),
        iconButton("settings", "Settings (Alt+S)", onSettings),
        this.meter.meter,
        h("span", { id: "message-hint", class: "hint" }, "Enter sends, Shift+Enter begins a line"),
        this.button,
      ),
      this.picker,
    );
    this.form.onsubmit = (event) => {
      event.preventDefault();
      if (app.generation()) app.stop();
      else this.#send();
    };
    this.area.onkeydown = (event) => this.#key(event);
    this.area.oninput = () => this.#grown();
    this.area.onpaste = (event) => {
      if (event.clipboardData.files.length === 0) return;
      event.preventDefault();
      this.attach(event.clipboardData.files);
    };
    this.#dropping();
    this.refresh();
  }

  /** The button sends, or stops the answer that is being written. */
  refresh() {
    const live = Boolean(app.generation());
    const completes = model()?.completes ?? false;
    const send = completes ? "Complete" : "Send";
    this.button.setAttribute("aria-label", live ? "Stop the answer" : send);
    this.button.title = live ? "Stop (Esc)" : `${send} (Enter)`;
    this.area.placeholder = !completes ? "Write a message" : app.current().empty ? "Begin a text" : "Add to the text";
    this.area.setAttribute("aria-label", completes ? "Text" : "Message");
    this.meter.show();
    this.button.classList.toggle("stops", live);
    this.button.disabled = !live && this.#nothing();
    replace(this.button, icon(live ? "stop" : "send"));
  }

  fill(text) {
    this.area.value = text;
    this.#grown();
    this.area.focus();
  }

  #grown() {
    if (!CSS.supports("field-sizing", "content")) {
      this.area.style.height = "auto";
      this.area.style.height = `${this.area.scrollHeight}px`;
    }
    if (!app.generation() && this.button.disabled !== this.#nothing()) this.refresh();
  }

  /** Whether there is nothing to send, or no model that would write. */
  #nothing() {
    return (this.area.value.trim() === "" && this.files.length === 0) || model()?.writes === false;
  }

  #key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!app.generation()) this.#send();
    } else if (event.key === "ArrowUp" && this.area.value === "") {
      const edits = document.querySelectorAll(".message.user .icon-button:last-child");
      if (edits.length > 0) {
        event.preventDefault();
        edits[edits.length - 1].click();
      }
    }
  }

  #send() {
    const text = this.area.value.trim();
    if (this.#nothing()) return;
    const { files } = this;
    this.area.value = "";
    this.files = [];
    this.#showChips();
    this.#grown();
    app.send(text, files);
  }

  async attach(list) {
    const { files, refused } = await readFiles(list, this.files);
    this.files.push(...files);
    refused.forEach((sentence) => toast(sentence));
    this.#showChips();
    this.refresh();
    this.area.focus();
  }

  async #picked() {
    await this.attach([...this.picker.files]);
    this.picker.value = "";
  }

  #showChips() {
    this.chips.hidden = this.files.length === 0;
    replace(
      this.chips,
      this.files.map((file) =>
        h(
          "li",
          {},
          icon("file"),
          h("span", {}, file.name),
          h("small", {}, size(file.text.length)),
          iconButton("close", `Remove ${file.name}`, () => {
            this.files = this.files.filter((other) => other !== file);
            this.#showChips();
            this.refresh();
            this.area.focus();
          }),
        ),
      ),
    );
  }

  #dropping() {
    const veil = find("#drop");
    let depth = 0;
    const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const end = () => {
      depth = 0;
      veil.hidden = true;
    };
    document.addEventListener("dragenter", (event) => {
      if (!carries(event)) return;
      depth += 1;
      veil.hidden = false;
    });
    document.addEventListener("dragleave", () => {
      depth -= 1;
      if (depth <= 0) end();
    });
    document.addEventListener("dragover", (event) => {
      if (carries(event)) event.preventDefault();
    });
    document.addEventListener("drop", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      end();
      this.attach([...event.dataTransfer.files]);
    });
  }
}

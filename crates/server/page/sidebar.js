// The list of conversations, with search.

import * as app from "./app.js";
import { find, h, replace, toast } from "./dom.js";
import { iconButton } from "./icons.js";
import { listConversations, searchMessages } from "./store.js";

const DAY = 86_400_000;
/** Conversations shown before "Show more". */
const PAGE = 150;

export class Sidebar {
  constructor() {
    this.list = find("#conversations");
    this.search = find("#search");
    this.limit = PAGE;
    this.found = new Map();
    this.search.oninput = () => this.#searched();
    this.search.onkeydown = (event) => {
      if (event.key === "Escape" && this.search.value !== "") {
        event.stopPropagation();
        this.search.value = "";
        this.#searched();
      } else if (event.key === "ArrowDown" || event.key === "Enter") {
        event.preventDefault();
        this.list.querySelector("a")?.focus();
      }
    };
    this.list.onkeydown = (event) => this.#walk(event);
  }

  async refresh() {
    const records = await listConversations();
    this.records = records.sort((a, b) => b.updated - a.updated);
    this.#show();
  }

  /** Titles are searched at once, messages after a moment. */
  #searched() {
    clearTimeout(this.timer);
    const words = this.search.value.trim().toLowerCase();
    this.found = new Map();
    this.limit = PAGE;
    this.#show();
    if (words.length < 2) return;
    this.timer = setTimeout(async () => {
      const found = await searchMessages(words, () => this.search.value.trim().toLowerCase() === words);
      if (this.search.value.trim().toLowerCase() !== words) return;
      this.found = found;
      this.#show();
      find("#search-state").textContent = `${this.list.querySelectorAll("a").length} found`;
    }, 250);
  }

  #show() {
    const words = this.search.value.trim().toLowerCase();
    const shown = (this.records ?? []).filter(
      ({ id, title }) => title.toLowerCase().includes(words) || this.found.has(id),
    );
    const children = [];
    let group = "";
    for (const record of shown.slice(0, this.limit)) {
      const name = when(record.updated);
      if (name !== group) children.push(h("li", { class: "when", role: "presentation" }, name));
      group = name;
      children.push(this.#entry(record));
    }
    if (shown.length > this.limit) {
      children.push(
        h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              class: "link",
              onclick: () => {
                this.limit *= 4;
                this.#show();
              },
            },
            `Show ${shown.length - this.limit} more`,
          ),
        ),
      );
    }
    if (shown.length === 0) {
      children.push(h("li", { class: "none" }, words ? "Nothing found." : "Conversations appear here."));
    }
    replace(this.list, children);
  }

  #entry(record) {
    const match = this.found.get(record.id);
    const link = h(
      "a",
      {
        href: `#/c/${record.id}`,
        class: "entry",
        onclick: (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          app.open(record.id, match?.id).then(() => {
            if (match) this.onFound?.(match.id);
          });
          this.onChoice?.();
        },
      },
      h("span", {}, record.title || "New conversation"),
      match && h("small", {}, match.excerpt),
    );
    if (record.id === app.current()?.id) link.setAttribute("aria-current", "page");
    const item = h(
      "li",
      { class: "conversation" },
      link,
      h(
        "span",
        { class: "entry-actions" },
        iconButton("edit", `Rename ${record.title}`, () => this.#rename(item, record)),
        iconButton("trash", `Delete ${record.title}`, () => removeWithUndo(record)),
      ),
    );
    return item;
  }

  #rename(item, record) {
    const field = h("input", { type: "text", value: record.title, "aria-label": "Title", maxLength: 200 });
    let closed = false;
    const close = async (keep) => {
      if (closed) return;
      closed = true;
      if (keep && field.value.trim() !== "") await app.rename(record.id, field.value.trim());
      else this.#show();
    };
    field.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key === "Enter") close(true);
      if (event.key === "Escape") close(false);
    };
    field.onblur = () => close(true);
    replace(item, field);
    field.select();
  }

  #walk(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...this.list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement.closest("li")?.querySelector("a"));
    const next = at + (event.key === "ArrowDown" ? 1 : -1);
    event.preventDefault();
    if (next < 0) this.search.focus();
    else links[next]?.focus();
  }
}

export async function removeWithUndo(record) {
  const undo = await app.remove(record.id);
  toast(`“${record.title || "New conversation"}” is deleted.`, { label: "Undo", run: undo });
}

function when(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return "Today";
  if (time >= midnight - DAY) return "Yesterday";
  if (time >= midnight - 7 * DAY) return "Last seven days";
  return new Date(time).toLocaleDateString("en", { month: "long", year: "numeric" });
}

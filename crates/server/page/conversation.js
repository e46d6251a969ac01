// A conversation: a tree of messages, of which one path is shown. Branches are different next messages after the same one.

export const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The parent of first messages. */
export const ROOT = "";

export class Conversation {
  /** `record` is what the store keeps: id, title, created, updated, system, leaf; `messages` in any order. */
  constructor(record, messages = []) {
    this.record = record;
    this.messages = new Map(messages.map((message) => [message.id, message]));
    this.children = new Map();
    [...messages].sort((a, b) => a.created - b.created || a.order - b.order).forEach((message) => this.#adopt(message));
    if (!this.messages.has(record.leaf)) record.leaf = this.#newest(ROOT);
  }

  static create(system = "") {
    const now = Date.now();
    return new Conversation({ id: newId(), title: "", created: now, updated: now, system, leaf: ROOT });
  }

  get id() {
    return this.record.id;
  }
  get title() {
    return this.record.title || "New conversation";
  }
  get empty() {
    return this.messages.size === 0;
  }
  get leaf() {
    return this.messages.get(this.record.leaf) ?? null;
  }

  #adopt(message) {
    const siblings = this.children.get(message.parent);
    if (siblings) siblings.push(message.id);
    else this.children.set(message.parent, [message.id]);
  }

  /** The last message of the path that always takes the newest branch after `id`. */
  #newest(id) {
    for (let next = this.children.get(id); next; next = this.children.get(id)) id = next[next.length - 1];
    return id;
  }

  /** The messages shown, oldest first. */
  path(last = this.record.leaf) {
    const found = [];
    for (let message = this.messages.get(last); message; message = this.messages.get(message.parent))
      found.push(message);
    return found.reverse();
  }

  /** The alternatives to a message, itself included, and its index among them. */
  branches(message) {
    const ids = this.children.get(message.parent) ?? [message.id];
    return { ids, index: ids.indexOf(message.id) };
  }

  /** Adds a message after `parent` and shows it. */
  append(parent, fields) {
    const message = {
      id: newId(),
      conversation: this.id,
      parent,
      created: Date.now(),
      order: this.messages.size,
      ...fields,
    };
    this.messages.set(message.id, message);
    this.#adopt(message);
    this.record.leaf = message.id;
    this.record.updated = message.created;
    if (!this.record.title && message.role === "user") this.record.title = titleOf(message);
    return message;
  }

  /** Shows the branch `by` places after that of `message`. */
  turn(message, by) {
    const { ids, index } = this.branches(message);
    const id = ids[Math.max(0, Math.min(ids.length - 1, index + by))];
    this.record.leaf = this.#newest(id);
    return id;
  }

  /** Shows a path through this message. */
  reveal(id) {
    if (this.messages.has(id) && !this.path().some((message) => message.id === id)) this.record.leaf = this.#newest(id);
  }
}

function titleOf(message) {
  const text = (message.content || message.files?.[0]?.name || "").replace(/\s+/g, " ").trim();
  return text.length > 60 ? `${text.slice(0, 57).replace(/\s\S*$/, "")}…` : text;
}

// The messages on screen. They stand in groups; a group is rendered when it comes near the screen, so that a conversation with
// 10,000 messages opens at once. Until then its texts stand there plainly, for the browser's own search.

import { h, replace } from "./dom.js";
import { icon } from "./icons.js";
import { MessageView } from "./message.js";
import { model } from "./status.js";
import { welcome } from "./welcome.js";

const GROUP = 20;
/** Pixels from the end within which new text scrolls the view along. */
const NEAR = 60;

export class Transcript {
  constructor(scroller, callbacks) {
    this.scroller = scroller;
    this.callbacks = callbacks;
    this.list = h("div", { class: "messages", role: "log", "aria-live": "off", "aria-label": "Messages" });
    this.jump = h(
      "button",
      { type: "button", class: "jump", hidden: true, onclick: () => this.toEnd(true) },
      icon("down"),
      "Latest",
    );
    this.jump.setAttribute("aria-label", "Go to the latest message");
    scroller.append(this.list);
    this.views = [];
    this.groups = [];
    this.pinned = true;
    this.last = 0;
    this.near = new IntersectionObserver((entries) => this.#arrive(entries), {
      root: scroller,
      rootMargin: "900px 0px",
    });
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => {
      if (this.pinned) this.toEnd();
    }).observe(this.list);
    new ResizeObserver(() => {
      if (this.pinned) this.toEnd();
    }).observe(scroller);
  }

  /** Shows these messages; those at the front that are shown already stay as they are. */
  show(conversation) {
    const path = conversation.path();
    if (this.conversation !== conversation) {
      this.conversation = conversation;
      this.#truncate(0);
      this.pinned = true;
    }
    let same = 0;
    while (same < this.views.length && same < path.length && this.views[same].message === path[same]) same += 1;
    this.#truncate(same);
    // A new neighbour changes the branches that the last message before it is one of.
    for (const message of path.slice(same)) this.#append(message);
    this.groups.forEach((group) => this.#estimate(group));
    this.list.classList.toggle("is-empty", path.length === 0);
    this.greet();
    if (path.length > 0) this.list.querySelector(".welcome")?.remove();
    this.views.slice(-2).forEach((view) => this.#render(view.group));
    this.views.forEach((view) => view.element.classList.remove("last"));
    this.views.at(-1)?.element.classList.add("last");
    if (this.pinned) this.toEnd();
  }

  /** Shows what suits the model; in an empty conversation that is a greeting. */
  greet() {
    this.list.classList.toggle("completing", model()?.completes ?? false);
    if (!this.list.classList.contains("is-empty")) return;
    const next = welcome(model(), this.callbacks.onExample);
    if (this.list.querySelector(".welcome")?.textContent !== next.textContent) replace(this.list, next);
  }

  #truncate(length) {
    for (const view of this.views.splice(length)) {
      view.element.remove();
      view.group.views.pop();
    }
    for (let group = this.groups.at(-1); group && group.views.length === 0; group = this.groups.at(-1)) {
      this.near.unobserve(group.element);
      group.element.remove();
      this.groups.pop();
    }
    if (length === 0) this.list.textContent = "";
  }

  #append(message) {
    let group = this.groups.at(-1);
    if (!group || group.views.length === GROUP) {
      group = { element: h("div", { class: "group" }), views: [], rendered: false };
      group.element.group = group;
      this.groups.push(group);
      this.list.append(group.element);
      this.near.observe(group.element);
    }
    const view = new MessageView(message, this.conversation, this.callbacks);
    view.group = group;
    group.views.push(view);
    group.element.append(view.element);
    if (group.rendered) view.render();
    this.views.push(view);
  }

  /** The browser takes this height for a group that it has not laid out. */
  #estimate(group) {
    if (group.rendered) return;
    const height = group.views.reduce(
      (sum, { message }) => sum + 110 + 26 * Math.floor(message.content.length / 85),
      0,
    );
    group.element.style.containIntrinsicSize = `auto ${height}px`;
  }

  #arrive(entries) {
    for (const entry of entries) {
      if (entry.isIntersecting) this.#render(entry.target.group);
    }
  }

  #render(group) {
    if (group.rendered) return;
    group.rendered = true;
    group.views.forEach((view) => view.render());
    this.near.unobserve(group.element);
  }

  view(message) {
    return this.views.findLast((view) => view.message === message);
  }

  viewOf(node) {
    const element = node?.closest?.(".message");
    return element ? this.views.find((view) => view.element === element) : undefined;
  }

  /** Brings a message to the top of the screen. */
  reveal(id) {
    const view = this.views.find(({ message }) => message.id === id);
    if (!view) return;
    this.pinned = false;
    this.#render(view.group);
    view.element.scrollIntoView({ block: "start" });
    // Groups around it are laid out now and move it: once more.
    requestAnimationFrame(() => view.element.scrollIntoView({ block: "start" }));
    view.element.classList.add("found");
    setTimeout(() => view.element.classList.remove("found"), 2000);
  }

  toEnd(pin = false) {
    if (pin) this.pinned = true;
    this.scroller.scrollTop = this.list.classList.contains("is-empty") ? 0 : this.scroller.scrollHeight;
    this.last = this.scroller.scrollTop;
    this.jump.hidden = true;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const distance = scrollHeight - scrollTop - clientHeight;
    if (distance < NEAR) this.pinned = true;
    else if (scrollTop < this.last - 1) this.pinned = false;
    this.last = scrollTop;
    this.jump.hidden = this.pinned || distance < 300;
    this.callbacks.onScroll?.();
  }
}

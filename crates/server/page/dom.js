// Building elements: text always becomes text nodes, never markup.

/** An element with properties, attributes (names with a dash, or role) and children; empty children are left out. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name === "class") element.className = value;
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name.includes("-") || ["role", "for", "list", "popover"].includes(name)) element.setAttribute(name, value);
    else element[name] = value;
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of children.flat()) {
    if (child !== undefined && child !== null && child !== false && child !== "") element.append(child);
  }
}

export function replace(element, ...children) {
  element.textContent = "";
  add(element, children);
}

export const find = (selector) => document.querySelector(selector);

/** Reads a text to screen readers, once, when they are idle. */
export function announce(text) {
  const region = find("#announcements");
  region.textContent = "";
  setTimeout(() => {
    region.textContent = text;
  }, 50);
}

/** A short message at the bottom; `action` is { label, run }. */
export function toast(text, action) {
  const close = () => note.remove();
  const button =
    action &&
    h(
      "button",
      {
        class: "link",
        onclick: () => {
          close();
          action.run();
        },
      },
      action.label,
    );
  const note = h("div", { class: "toast" }, h("span", {}, text), button);
  find("#toasts").append(note);
  setTimeout(close, action ? 9000 : 5000);
}

/** Writes to the clipboard; on plain http from another machine the browser offers only the old way. */
export async function copy(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      /* refused: try the old way */
    }
  }
  const area = h("textarea", { class: "hidden-field", value: text });
  (find("dialog[open]") ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** Offers a text as a file. */
export function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

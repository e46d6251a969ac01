// Icons of 20 × 20, drawn as lines in the colour of the text.

const PATHS = {
  add: "M10 4v12M4 10h12",
  attach: "M15.5 9.2l-5.9 5.9a3.6 3.6 0 01-5.1-5.1l6.4-6.4a2.4 2.4 0 013.4 3.4l-6.3 6.3a1.2 1.2 0 01-1.7-1.7l5.4-5.4",
  back: "M12 5l-5 5 5 5",
  check: "M4.5 10.5l3.5 3.5 7.5-8",
  chart: "M4 16V9M8 16V4M12 16v-5M16 16v-8",
  close: "M5 5l10 10M15 5L5 15",
  copy: "M7 7V4.5A1.5 1.5 0 018.5 3h7A1.5 1.5 0 0117 4.5v7a1.5 1.5 0 01-1.5 1.5H13M4.5 7h7A1.5 1.5 0 0113 8.5v7a1.5 1.5 0 01-1.5 1.5h-7A1.5 1.5 0 013 15.5v-7A1.5 1.5 0 014.5 7z",
  down: "M10 4v12M5 11l5 5 5-5",
  download: "M10 3v9M6 8.5l4 4 4-4M4 16h12",
  edit: "M12.5 4.5l3 3L7 16H4v-3zM11 6l3 3",
  file: "M5.5 2.5h6l4 4v11h-10zM11.5 2.5v4h4",
  forward: "M8 5l5 5-5 5",
  help: "M7.5 7.7a2.5 2.5 0 114 2c-.9.6-1.5 1-1.5 2M10 14.5v.1M10 2.5a7.5 7.5 0 100 15 7.5 7.5 0 000-15z",
  menu: "M3 5h14M3 10h14M3 15h9",
  more: "M4.5 10h.01M10 10h.01M15.5 10h.01",
  moon: "M16 11.5A6.5 6.5 0 118.5 4a5.2 5.2 0 007.5 7.5z",
  play: "M6 4.5v11l9-5.5z",
  redo: "M15.5 8A6 6 0 104.3 12.5M15.8 3.5V8h-4.5",
  search: "M9 3.5a5.5 5.5 0 100 11 5.5 5.5 0 000-11zM13 13l4 4",
  send: "M10 16V4.5M5 9l5-5 5 5",
  settings: "M3 6h8M15 6h2M3 14h2M9 14h8M13 4v4M7 12v4",
  stop: "M6 6h8v8H6z",
  sun: "M10 6.5a3.5 3.5 0 100 7 3.5 3.5 0 000-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1",
  system: "M3 4h14v9H3zM7 16.5h6",
  torch:
    "M10 2c1 2.5 3.8 3.8 3.8 7a3.8 3.8 0 01-7.6 0c0-1.6.8-2.4 1.5-3.4.4 1 .9 1.3 1.3 1.4C8.8 5 9.2 3.5 10 2zM8 14.5h4l-.6 3.5H8.6z",
  trash: "M4 5.5h12M8 5.5V3.5h4v2M5.5 5.5l.7 11h7.6l.7-11M8.5 8.5v5M11.5 8.5v5",
  upload: "M10 12.5v-9M6 7l4-4 4 4M4 16h12",
};
const SVG = "http://www.w3.org/2000/svg";

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** What every button with only an icon is: a name for screen readers, which is also its tooltip. */
export function iconButton(name, label, onclick, more = "") {
  const button = document.createElement("button");
  button.type = "button";
  button.className = `icon-button ${more}`;
  button.title = label;
  button.setAttribute("aria-label", label.replace(/ \(.*\)$/, ""));
  button.onclick = onclick;
  button.append(icon(name));
  return button;
}

// The switch between the system's theme, light and dark.

import { announce, replace } from "./dom.js";
import { icon } from "./icons.js";

const ORDER = ["system", "light", "dark"];
const ICONS = { system: "system", light: "sun", dark: "moon" };

export function setUpTheme(button) {
  const root = document.documentElement;
  const show = () => {
    const theme = root.dataset.theme ?? "system";
    button.setAttribute("aria-label", `Theme: ${theme}`);
    button.title = `Theme: ${theme}`;
    replace(button, icon(ICONS[theme]));
    return theme;
  };
  button.onclick = () => {
    const next = ORDER[(ORDER.indexOf(show()) + 1) % ORDER.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem("theme", next);
    } catch {
      /* storage is switched off: it lasts as long as the page */
    }
    announce(`Theme: ${show()}`);
  };
  show();
}

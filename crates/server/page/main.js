// Puts the page together.

import * as app from "./app.js";
import { setUpTheme } from "./appearance.js";
import { onKeyNeeded, openapi, properties } from "./client.js";
import { Composer } from "./composer.js";
import { askForKey, openHelp } from "./dialogs.js";
import { announce, find, replace, toast } from "./dom.js";
import { setUpTransfer, showModels, showState } from "./header.js";
import { icon, iconButton } from "./icons.js";
import { showNotice } from "./notice.js";
import { Probabilities } from "./probabilities.js";
import { settings } from "./settings.js";
import { openSettings, setParameters } from "./settings-panel.js";
import { setUpShortcuts } from "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { lookNow, serverState, watchServer } from "./status.js";
import { onStoreTrouble, openStore } from "./store.js";
import { Transcript } from "./transcript.js";

/** Characters of an answer that are read to screen readers at once. */
const READ_ALOUD = 1500;

onKeyNeeded(askForKey);

const composer = new Composer({ onSettings: openSettings });
const sidebar = new Sidebar();
const transcript = new Transcript(find("#scroller"), {
  onExample: (text) => composer.fill(text),
  onProbabilities: (view) => {
    probabilities.toggle();
    // The button was made anew: the focus goes to what it switched on, or back to it.
    const next = settings.shown ? view.markdown.element : view.element.querySelector("[aria-pressed]");
    next?.focus({ preventScroll: true });
  },
  onRendered: (view) => probabilities.rendered(view),
  onScroll: () => probabilities.close(),
  onTurn: (message, by) => {
    const id = app.turn(message, by);
    const view = transcript.views.find((candidate) => candidate.message.id === id);
    view?.element.querySelector(`.turner button:${by < 0 ? "first" : "last"}-child`)?.focus();
  },
});
find("#composer").prepend(transcript.jump);
const probabilities = new Probabilities(transcript);

function refresh() {
  transcript.show(app.current());
  composer.refresh();
}

/** Not where that would open a keyboard on the screen. */
function focusField() {
  if (matchMedia("(hover: hover)").matches) composer.area.focus({ preventScroll: true });
}

/** An empty conversation has a heading of its own. */
function showTitle() {
  const { empty, title } = app.current();
  find("#title").hidden = empty;
  find("#title").textContent = title;
  find("#more").hidden = empty;
}

app.on("open", () => {
  probabilities.clear();
  refresh();
  sidebar.refresh();
  focusField();
  showTitle();
});
app.on("path", (begins) => {
  transcript.pinned = begins;
  refresh();
  showTitle();
  if (begins) focusField();
  lookNow();
});
app.on("list", () => {
  sidebar.refresh();
  showTitle();
});
app.on("update", ({ conversation, message }) => {
  transcript.view(message)?.update();
  if (conversation === app.current()) composer.meter.show();
});
app.on("settings", showServer);
app.on("end", ({ conversation, message }) => {
  transcript.view(message)?.show();
  composer.refresh();
  lookNow();
  if (conversation !== app.current())
    return toast(`“${conversation.title}” has its answer.`, { label: "Open", run: () => app.open(conversation.id) });
  if (message.error) return announce(`${message.error.title} ${message.error.advice}`);
  const text = transcript.view(message)?.markdown?.element.textContent ?? message.content;
  return announce(`${message.state === "stopped" ? "Stopped" : "Answer"}: ${text.slice(0, READ_ALOUD)}`);
});

/** The server's own values wait until its first model is loaded. */
async function loadParameters() {
  const [found, document] = await Promise.all([properties(), openapi()]);
  setParameters(document, found);
}

/** Shows what the server and the chosen model are now. */
function showServer() {
  showModels(serverState());
  showState(serverState());
  showNotice();
  transcript.greet();
  composer.refresh();
}

function toggleSidebar() {
  const narrow = matchMedia("(max-width: 760px)").matches;
  const name = narrow ? "sidebar-open" : "sidebar-closed";
  document.body.classList.toggle(name);
  const open = narrow === document.body.classList.contains(name);
  find("#toggle").setAttribute("aria-expanded", String(open));
  if (open && narrow) find("#search").focus();
}

function closeDrawer() {
  document.body.classList.remove("sidebar-open");
  if (matchMedia("(max-width: 760px)").matches) find("#toggle").setAttribute("aria-expanded", "false");
}

function startNew() {
  closeDrawer();
  app.startNew();
}

sidebar.onChoice = closeDrawer;
sidebar.onFound = (id) => transcript.reveal(id);
replace(find("#toggle"), icon("menu"));
find("#toggle").onclick = toggleSidebar;
find("#toggle").setAttribute("aria-expanded", String(!matchMedia("(max-width: 760px)").matches));
find(".skip").onclick = (event) => {
  event.preventDefault();
  composer.area.focus();
};
find("#veil").onclick = closeDrawer;
find("#new").prepend(icon("add"));
find("#new").onclick = startNew;
find("#brand").prepend(icon("torch"));
find("#more").append(icon("more"));
find("#tools").prepend(iconButton("help", "Shortcuts (?)", openHelp));
find("#search").before(icon("search"));
setUpTheme(find("#theme"));
setUpTransfer({
  onRename: (conversation) => {
    const title = find("#title");
    try {
      title.contentEditable = "plaintext-only";
    } catch {
      title.contentEditable = "true";
    }
    title.focus();
    getSelection().selectAllChildren(title);
    title.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key === "Escape") title.textContent = conversation.title;
      if (event.key === "Enter" || event.key === "Escape") title.blur();
    };
    title.onblur = () => {
      title.contentEditable = "false";
      app.rename(conversation.id, title.textContent.trim() || conversation.title);
    };
  },
});
setUpShortcuts({
  fresh: startNew,
  probabilities: () => probabilities.toggle(),
  settings: openSettings,
  sidebar: toggleSidebar,
  help: openHelp,
  field: () => composer.area.focus(),
  search: () => {
    if (find("#toggle").getAttribute("aria-expanded") === "false") toggleSidebar();
    find("#search").focus();
  },
  again: () => {
    const last = app.current().leaf;
    if (last?.role === "assistant") app.regenerate(last);
  },
});
addEventListener("popstate", () => app.openAddress());
addEventListener("hashchange", () => {
  if (location.hash !== `#/c/${app.current()?.id}`) app.openAddress();
});
addEventListener("beforeunload", (event) => {
  if (app.anyRunning()) event.preventDefault();
});

const others = new BroadcastChannel("rustorch");
others.onmessage = () => sidebar.refresh();
app.on("list", () => others.postMessage("list"));

let told = false;
onStoreTrouble((error) => {
  if (told) return;
  told = true;
  const full = error?.name === "QuotaExceededError";
  toast(
    full
      ? "The browser's storage is full: delete old conversations, or export them first."
      : "The browser could not keep this conversation.",
  );
});
if (!(await openStore())) toast("This browser keeps no data for this page: conversations end with the tab.");
await app.openAddress();
document.body.classList.add("ready");
watchServer(app.anyRunning, (state, before) => {
  showServer();
  const live = app.generation();
  if (live) transcript.view(live.message)?.update();
  if (!state.trouble && (before.trouble || !before.known)) loadParameters();
  if (!state.trouble && before.trouble?.kind === "offline") announce("The server is back.");
});

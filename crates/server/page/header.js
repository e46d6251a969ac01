// The line above the messages: model, the server's state, and what can be done with the conversation.

import * as app from "./app.js";
import { download, find, h, replace, toast } from "./dom.js";
import { iconButton } from "./icons.js";
import { settings } from "./settings.js";
import { removeWithUndo } from "./sidebar.js";
import { listConversations, loadConversation } from "./store.js";
import { fromJson, toJson, toMarkdown } from "./transfer.js";

/** Fills the choice of models. */
export function showModels({ models, known }) {
  const choice = find("#model");
  const names = models.map(({ id }) => id);
  const listed = [...choice.options].map(({ value }) => value);
  if (listed.length > 0 && names.join("\n") === listed.filter(Boolean).join("\n")) return;
  if (names.length > 0 && !names.includes(settings.model)) app.change({ model: names[0] });
  const none = h("option", { value: "" }, known ? "No model" : "…");
  replace(
    choice,
    names.length === 0 ? none : names.map((id) => h("option", { value: id, selected: id === settings.model }, id)),
  );
  choice.disabled = names.length === 0;
  choice.onchange = () => app.change({ model: choice.value });
}

/** Queue and K/V cache, as the server's metrics tell. */
export function showState({ trouble, running, waiting, cache, hits }) {
  const reachable = trouble === null;
  const line = find("#state");
  line.classList.toggle("away", !reachable);
  line.classList.toggle("busy", reachable && running > 0);
  const parts = [];
  if (!reachable) parts.push(h("span", {}, trouble.kind === "offline" ? "offline" : "trouble"));
  else if (running !== undefined) {
    const queue = waiting > 0 ? `, ${waiting} waiting` : "";
    parts.push(h("span", {}, running > 0 ? `${running} running${queue}` : waiting > 0 ? `${waiting} waiting` : "idle"));
  }
  if (reachable && cache !== undefined) {
    const share = Math.round(cache * 100);
    const bar = h("i");
    bar.style.width = `${share}%`;
    parts.push(
      h(
        "span",
        { class: "cache", title: "Share of the K/V cache in use" },
        "K/V ",
        h("b", { "aria-hidden": "true" }, bar),
        ` ${share} %`,
      ),
    );
  }
  if (reachable && hits !== undefined) {
    parts.push(
      h(
        "span",
        { class: "hits", title: "Share of all prompt tokens that came from the prefix cache" },
        `cache hits ${Math.round(hits * 100)} %`,
      ),
    );
  }
  replace(line, h("span", { class: "lamp", "aria-hidden": "true" }), parts);
}

const fileName = (title) =>
  title
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 60) || "conversation";

/** The menu of the open conversation and the buttons for all of them. */
export function setUpTransfer({ onRename }) {
  const menu = find("#menu");
  const entry = (text, run) =>
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          menu.hidePopover();
          run(app.current());
        },
      },
      text,
    );
  replace(
    menu,
    entry("Rename", (conversation) => onRename(conversation)),
    entry("Export as Markdown", (conversation) =>
      download(`${fileName(conversation.title)}.md`, toMarkdown(conversation), "text/markdown"),
    ),
    entry("Export as JSON", (conversation) => {
      const bundle = { record: conversation.record, messages: [...conversation.messages.values()] };
      download(`${fileName(conversation.title)}.json`, toJson([bundle]), "application/json");
    }),
    entry("Delete", (conversation) => removeWithUndo(conversation.record)),
  );
  const picker = h("input", {
    type: "file",
    accept: ".json,application/json",
    hidden: true,
    onchange: async () => {
      for (const file of picker.files) await importFile(file);
      picker.value = "";
    },
  });
  picker.id = "import-picker";
  picker.setAttribute("aria-label", "File to import");
  find("#transfer").append(
    iconButton("upload", "Import conversations", () => picker.click()),
    iconButton("download", "Export all conversations", exportAll),
    picker,
  );
}

async function importFile(file) {
  try {
    const bundles = fromJson(await file.text());
    await app.take(bundles);
    toast(`${bundles.length} ${bundles.length === 1 ? "conversation is" : "conversations are"} imported.`);
  } catch (error) {
    toast(error.message);
  }
}

async function exportAll() {
  const bundles = [];
  for (const { id } of await listConversations()) bundles.push(await loadConversation(id));
  if (bundles.length === 0) toast("There are no conversations yet.");
  else download("rustorch-conversations.json", toJson(bundles.filter(Boolean)), "application/json");
}

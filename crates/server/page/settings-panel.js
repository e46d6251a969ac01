// The panel with system prompt, sampling and what else a request carries.

import * as app from "./app.js";
import { find, h, replace } from "./dom.js";
import { iconButton } from "./icons.js";
import { settings, templateArguments } from "./settings.js";
import { model as chosenModel } from "./status.js";

/** Fields that are shown at first; the others are folded away. */
const SHOWN = 8;

/** llama.cpp's sign for a random seed. */
const RANDOM_SEED = 4294967295;

/** Name, limits, hint and the server's own value of each number that a request can set, in the server's order. */
let parameters = [];

/** Takes the parameters from the server's document of its protocols, and their values from its properties. */
export function setParameters(document, properties) {
  const generation = properties.default_generation_settings ?? {};
  const values = { max_tokens: generation.params?.n_predict, ...generation, ...generation.params };
  const body = document.paths?.["/v1/chat/completions"]?.post?.requestBody?.content?.["application/json"]?.schema;
  parameters = Object.entries(resolve(document, body)?.properties ?? {})
    .filter(([, schema]) => schema["x-heading"] && kinds(schema).some((kind) => kind === "number" || kind === "integer"))
    .map(([name, schema]) => {
      const value = values[name] === RANDOM_SEED ? undefined : values[name];
      const step = kinds(schema).includes("integer") ? 1 : 0.01;
      const { minimum: min = -Infinity, maximum: max = Infinity, description: hint } = schema;
      return { name, hint, min, max, step, value: value ?? schema.default };
    });
  // The panel may have been opened before the server told them.
  find("#sampling")?.replaceWith(sampling());
}

function kinds(schema) {
  return [schema.type].flat();
}

/** The schema that a `$ref` of the document names, or else the schema itself. */
function resolve(document, schema) {
  const path = schema?.$ref?.replace(/^#\//, "").split("/");
  return path ? path.reduce((value, key) => value?.[key], document) : schema;
}

export function openSettings() {
  const dialog = find("#settings");
  const close = () => dialog.close();
  const chats = !chosenModel()?.completes;
  replace(
    dialog,
    h(
      "header",
      {},
      h("h2", { id: "settings-title", tabIndex: -1, autofocus: true }, "Settings"),
      iconButton("close", "Close", close),
    ),
    h("div", { class: "panel" }, chats && systemPrompt(), sampling(), model(chats), probabilities()),
  );
  dialog.onclick = (event) => {
    if (event.target === dialog) close();
  };
  dialog.showModal();
}

function systemPrompt() {
  const area = h("textarea", { id: "system", rows: 5, value: app.current().record.system, placeholder: "You are …" });
  const always = h("input", { type: "checkbox", checked: settings.system !== "" && settings.system === area.value });
  const keep = () => {
    app.setSystem(area.value);
    if (always.checked) app.change({ system: area.value });
  };
  area.oninput = keep;
  always.onchange = () => app.change({ system: always.checked ? area.value : "" });
  return h(
    "section",
    {},
    h("label", { for: "system" }, "System prompt"),
    area,
    h("label", { class: "check" }, always, h("span", {}, "Also for new conversations")),
  );
}

function sampling() {
  const fields = parameters.map(({ name, hint, min, max, step, value: own }) => {
    const label = (name[0].toUpperCase() + name.slice(1)).replaceAll("_", " ");
    const limits = [Number.isFinite(min) && `from ${min}`, Number.isFinite(max) && `to ${max}`].filter(Boolean);
    const field = h("input", {
      id: `set-${name}`,
      type: "number",
      min: Number.isFinite(min) ? String(min) : undefined,
      max: Number.isFinite(max) ? String(max) : undefined,
      step: String(step),
      value: settings.numbers[name] ?? "",
      placeholder: Number.isFinite(own) ? String(Number(own.toFixed(4))) : "",
      inputMode: "decimal",
      "aria-describedby": `hint-${name}`,
    });
    const note = h("small", { id: `hint-${name}` }, hint);
    field.oninput = () => {
      const value = field.valueAsNumber;
      const wrong = field.validity.badInput || (field.value !== "" && !(value >= min && value <= max));
      field.setAttribute("aria-invalid", String(wrong));
      note.textContent = wrong ? `${["A number", ...limits].join(" ")}, please.` : hint;
      if (wrong) return;
      const numbers = { ...settings.numbers };
      if (field.value === "") delete numbers[name];
      else numbers[name] = value;
      app.change({ numbers });
    };
    return h("div", { class: "number" }, h("label", { for: field.id }, label), field, note);
  });
  const reset = h(
    "button",
    {
      type: "button",
      class: "link",
      onclick: () => {
        app.change({ numbers: {} });
        fields.forEach((element) => {
          element.querySelector("input").value = "";
        });
      },
    },
    "Use the server's values",
  );
  const folded = fields.slice(SHOWN);
  const isSet = parameters.slice(SHOWN).some(({ name }) => name in settings.numbers);
  return h(
    "section",
    { id: "sampling" },
    h("div", { class: "section-head" }, h("h3", {}, "Sampling"), reset),
    fields.slice(0, SHOWN),
    folded.length > 0 && h("details", { open: isSet }, h("summary", {}, "More parameters"), folded),
  );
}

/** `chats` says that there is a chat template, which reads arguments. */
function model(chats) {
  const choice = h(
    "select",
    { id: "reasoning", onchange: () => app.change({ reasoning: choice.value }) },
    [
      ["", "As the model does"],
      ["on", "On"],
      ["off", "Off"],
    ].map(([value, text]) => h("option", { value, selected: value === settings.reasoning }, text)),
  );
  const area = h("textarea", {
    id: "template",
    rows: 2,
    value: settings.template,
    placeholder: '{"name": "value"}',
    spellcheck: false,
    "aria-describedby": "template-note",
  });
  const note = h("small", { id: "template-note" }, "As JSON, for templates that take arguments.");
  area.oninput = () => {
    const right = templateArguments(area.value) !== null;
    area.setAttribute("aria-invalid", String(!right));
    note.textContent = right
      ? "As JSON, for templates that take arguments."
      : "This is not a JSON object yet, so it is not sent.";
    app.change({ template: area.value });
  };
  return h(
    "section",
    {},
    h("h3", {}, "Model"),
    chats && h(
      "div",
      { class: "number" },
      h("label", { for: "reasoning" }, "Reasoning"),
      choice,
      h("small", {}, "Only for models that can think first."),
    ),
    chats && [h("label", { for: "template" }, "Arguments of the chat template"), area, note],
    check("Reuse the cached part of the prompt", "cache"),
  );
}

function probabilities() {
  return h(
    "section",
    {},
    h("h3", {}, "Token probabilities"),
    check("Ask the server for them", "logprobs"),
    h(
      "small",
      {},
      "The button with bars below an answer then shows how sure the model was of each word, what else it might have said, " +
        "and goes on from there.",
    ),
  );
}

function check(text, name) {
  const box = h("input", {
    type: "checkbox",
    checked: settings[name],
    onchange: () => app.change({ [name]: box.checked }),
  });
  return h("label", { class: "check" }, box, h("span", {}, text));
}

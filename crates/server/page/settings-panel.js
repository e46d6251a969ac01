// The panel with system prompt, sampling and what else a request carries.

import * as app from "./app.js";
import { find, h, replace } from "./dom.js";
import { iconButton } from "./icons.js";
import { NUMBERS, settings, templateArguments } from "./settings.js";

/** The server's own values, shown in empty fields. */
let defaults = {};

export function setDefaults(properties) {
  const generation = properties.default_generation_settings ?? {};
  defaults = { ...generation, ...generation.params };
  defaults.max_tokens ??= defaults.n_predict;
}

export function openSettings() {
  const dialog = find("#settings");
  const close = () => dialog.close();
  replace(
    dialog,
    h(
      "header",
      {},
      h("h2", { id: "settings-title", tabIndex: -1, autofocus: true }, "Settings"),
      iconButton("close", "Close", close),
    ),
    h("div", { class: "panel" }, systemPrompt(), sampling(), model(), probabilities()),
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
  const fields = NUMBERS.map(({ name, label, hint, fallback, min, max, step }) => {
    const given = defaults[name];
    const shown =
      Number.isFinite(given) &&
      !(name === "max_tokens" && given < 0) &&
      !(name === "seed" && (given < 0 || given >= 4294967295))
        ? Number(given.toFixed(4))
        : fallback;
    const field = h("input", {
      id: `set-${name}`,
      type: "number",
      min: String(min),
      max: String(max),
      step: String(step),
      value: settings.numbers[name] ?? "",
      placeholder: String(shown),
      inputMode: "decimal",
      "aria-describedby": `hint-${name}`,
    });
    const note = h("small", { id: `hint-${name}` }, hint);
    field.oninput = () => {
      const value = field.valueAsNumber;
      const wrong = field.validity.badInput || (field.value !== "" && !(value >= min && value <= max));
      field.setAttribute("aria-invalid", String(wrong));
      note.textContent = wrong ? `A number from ${min} to ${max}, please.` : hint;
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
  return h("section", {}, h("div", { class: "section-head" }, h("h3", {}, "Sampling"), reset), fields);
}

function model() {
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
    h(
      "div",
      { class: "number" },
      h("label", { for: "reasoning" }, "Reasoning"),
      choice,
      h("small", {}, "Only for models that can think first."),
    ),
    h("label", { for: "template" }, "Arguments of the chat template"),
    area,
    note,
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

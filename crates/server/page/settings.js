// What the reader set: kept in this browser, sent with each request where it differs from the server's own values.

import { newId } from "./conversation.js";

const KEY = "settings";

const DEFAULTS = {
  numbers: {},
  system: "",
  reasoning: "",
  template: "",
  cache: true,
  logprobs: true,
  shown: false,
  model: "",
};

export const settings = { ...DEFAULTS, ...load() };

function load() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

export function saveSettings() {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    /* storage is switched off: they last as long as the page */
  }
}

/** The arguments for the chat template as an object, or null if the text is not one. */
export function templateArguments(text) {
  if (text.trim() === "") return {};
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** The fields of a request that come from the settings. */
export function requestFields() {
  const fields = {};
  for (const [name, number] of Object.entries(settings.numbers)) {
    if (Number.isFinite(number)) fields[name] = number;
  }
  const template = templateArguments(settings.template) ?? {};
  if (settings.reasoning !== "") template.enable_thinking = settings.reasoning === "on";
  if (Object.keys(template).length > 0) fields.chat_template_kwargs = template;
  // Nothing is cached under a salt of its own.
  if (!settings.cache) fields.cache_salt = newId();
  if (settings.logprobs) Object.assign(fields, { logprobs: true, top_logprobs: 8 });
  return fields;
}

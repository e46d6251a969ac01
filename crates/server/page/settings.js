// What the reader set: kept in this browser, sent with each request where it differs from the server's own values.

import { newId } from "./conversation.js";

const KEY = "settings";

/** Numbers of a request: name, label, limits, and what it does. An empty field leaves the server's value. */
export const NUMBERS = [
  {
    name: "temperature",
    label: "Temperature",
    min: 0,
    max: 5,
    step: 0.05,
    fallback: 0.8,
    hint: "0 always takes the most probable token; higher is more varied.",
  },
  {
    name: "top_p",
    label: "Top P",
    min: 0,
    max: 1,
    step: 0.01,
    fallback: 0.95,
    hint: "Keeps the most probable tokens that together reach this share.",
  },
  {
    name: "top_k",
    label: "Top K",
    min: 0,
    max: 1000,
    step: 1,
    fallback: 40,
    hint: "Keeps this many tokens; 0 keeps all.",
  },
  {
    name: "min_p",
    label: "Min P",
    min: 0,
    max: 1,
    step: 0.01,
    fallback: 0.05,
    hint: "Drops tokens less probable than this share of the best one.",
  },
  {
    name: "repeat_penalty",
    label: "Repeat penalty",
    min: 0.5,
    max: 3,
    step: 0.01,
    fallback: 1,
    hint: "Above 1, tokens that occurred become less probable.",
  },
  {
    name: "max_tokens",
    label: "Longest answer",
    min: 1,
    max: 10_000_000,
    step: 1,
    fallback: "no limit",
    hint: "In tokens.",
  },
  {
    name: "seed",
    label: "Seed",
    min: 0,
    max: 4294967295,
    step: 1,
    fallback: "random",
    hint: "The same seed gives the same answer again.",
  },
];

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
  for (const { name } of NUMBERS) {
    if (Number.isFinite(settings.numbers[name])) fields[name] = settings.numbers[name];
  }
  const template = templateArguments(settings.template) ?? {};
  if (settings.reasoning !== "") template.enable_thinking = settings.reasoning === "on";
  if (Object.keys(template).length > 0) fields.chat_template_kwargs = template;
  // Nothing is cached under a salt of its own.
  if (!settings.cache) fields.cache_salt = newId();
  if (settings.logprobs) Object.assign(fields, { logprobs: true, top_logprobs: 8 });
  return fields;
}

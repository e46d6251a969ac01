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

/** The fields of a request that set how tokens are chosen, and whether the cache is used. */
export function samplingFields() {
  const fields = Object.fromEntries(Object.entries(settings.numbers).filter(([, number]) => Number.isFinite(number)));
  // Nothing is cached under a salt of its own.
  return settings.cache ? fields : { ...fields, cache_salt: newId() };
}

/** The fields of a request that the chat template reads. */
export function templateFields() {
  const template = templateArguments(settings.template) ?? {};
  if (settings.reasoning !== "") template.enable_thinking = settings.reasoning === "on";
  return Object.keys(template).length > 0 ? { chat_template_kwargs: template } : {};
}

/** These fields, if probabilities are wanted. */
export const probabilityFields = (fields) => (settings.logprobs ? fields : {});

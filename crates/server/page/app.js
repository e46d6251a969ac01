// What the page does, apart from showing it: the open conversation, running answers, and the changes to both.

import { Conversation, ROOT } from "./conversation.js";
import { blankAnswer, Generation } from "./generation.js";
import { saveSettings, settings } from "./settings.js";
import * as store from "./store.js";

const listeners = new Map();
let conversation = Conversation.create(settings.system);
/** Running answers by the id of their conversation: they go on while another conversation is shown. */
const running = new Map();

/**
 * Calls back on: `open` (another conversation), `path` (other messages of it; true if an answer begins at its end), `list` (the
 * list of conversations), `update` and `end` (of a running answer), `settings`.
 */
export function on(name, listener) {
  listeners.set(name, [...(listeners.get(name) ?? []), listener]);
}

function emit(name, ...details) {
  for (const listener of listeners.get(name) ?? []) listener(...details);
}

export const current = () => conversation;
export const generation = () => running.get(conversation.id) ?? null;
export const anyRunning = () => running.size > 0;

function show(next) {
  conversation = next;
  const address = next.empty ? location.pathname + location.search : `#/c/${next.id}`;
  if (location.hash !== (next.empty ? "" : address)) history.pushState(null, "", address);
  document.title = next.empty ? "RusTorch" : `${next.title} – RusTorch`;
  emit("open");
}

export function startNew() {
  show(Conversation.create(settings.system));
}

/** Opens the conversation, at a message if one is given; a new one if it is gone. */
export async function open(id, message) {
  let next = running.get(id)?.conversation;
  if (!next) {
    const kept = await store.loadConversation(id);
    if (!kept) return startNew();
    kept.messages
      .filter(({ state }) => state === "running")
      .forEach((cut) => {
        cut.state = "stopped";
      });
    next = new Conversation(kept.record, kept.messages);
  }
  if (message) next.reveal(message);
  return show(next);
}

/** Opens what the address names. */
export const openAddress = () => {
  const id = /^#\/c\/(\w+)$/.exec(location.hash)?.[1];
  return id ? open(id) : startNew();
};

export function send(content, files) {
  const fresh = conversation.empty;
  const question = conversation.append(conversation.record.leaf, { role: "user", content, files });
  store.save(conversation.record, [question]);
  if (fresh) {
    history.pushState(null, "", `#/c/${conversation.id}`);
    document.title = `${conversation.title} – RusTorch`;
  }
  answer(question.id, blankAnswer());
}

/** Adds an answer after `parent` and has the server write it. */
function answer(parent, fields, tokens = []) {
  stop();
  generate(conversation.append(parent, fields), tokens);
}

function generate(message, tokens) {
  const of = conversation;
  const started = new Generation(of, message, tokens, {
    onUpdate: (generation) => emit("update", generation),
    onEnd: (generation) => {
      if (running.get(of.id) === generation) running.delete(of.id);
      emit("end", generation);
      emit("list");
    },
  });
  running.set(of.id, started);
  emit("path", true);
  emit("list");
  started.run();
}

export function stop() {
  generation()?.stop();
}

/** Another answer to the same question. */
export function regenerate(message) {
  answer(message.parent, blankAnswer());
}

/** Has an answer that ended too early go on where it ended; one that is empty begins anew. */
export async function goOn(message) {
  stop();
  const tokens = await store.loadTokens(message.id);
  delete message.edited;
  conversation.record.leaf = message.id;
  generate(
    message,
    tokens.filter((token) => token.end <= message.content.length),
  );
}

/** A new branch in which a token is another one; the server goes on from there. */
export function pick(message, tokens, index, [text, logprob]) {
  const token = tokens[index];
  const content = message.content.slice(0, token.start) + text;
  const picked = { ...token, end: content.length, text, logprob, picked: true };
  answer(message.parent, { ...blankAnswer(content, message.reasoning) }, [...tokens.slice(0, index), picked]);
}

/** A new branch with another text: of a question, which is then answered, or of an answer. */
export function edit(message, content, files) {
  stop();
  const changed =
    message.role === "user"
      ? { role: "user", content, files }
      : { ...blankAnswer(content, message.reasoning), state: "done", edited: true };
  const added = conversation.append(message.parent, changed);
  store.save(conversation.record, [added]);
  if (message.role === "user") answer(added.id, blankAnswer());
  else emit("path");
}

export function turn(message, by) {
  const id = conversation.turn(message, by);
  store.save(conversation.record);
  emit("path");
  return id;
}

export const tokensOf = async (message) =>
  generation()?.message === message ? generation().tokens : store.loadTokens(message.id);

export function setSystem(text) {
  conversation.record.system = text;
  if (!conversation.empty) store.save(conversation.record);
}

export async function rename(id, title) {
  const record =
    conversation.id === id
      ? conversation.record
      : (running.get(id)?.conversation.record ?? (await store.loadConversation(id))?.record);
  if (!record) return;
  record.title = title.slice(0, 200);
  await store.save(record);
  if (conversation.id === id) document.title = `${conversation.title} – RusTorch`;
  emit("list");
}

/** Removes a conversation; resolves with what undoes that. */
export async function remove(id) {
  running.get(id)?.stop();
  const kept = await store.remove(id);
  if (conversation.id === id) startNew();
  emit("list");
  return async () => {
    if (kept?.record) await store.restore(kept);
    await open(id);
    emit("list");
  };
}

export async function take(bundles) {
  for (const bundle of bundles) await store.restore(bundle);
  emit("list");
  if (bundles.length > 0) await open(bundles[bundles.length - 1].record.id);
}

export function change(fields) {
  Object.assign(settings, fields);
  saveSettings();
  emit("settings");
}

export { ROOT };

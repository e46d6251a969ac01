// Conversations as files: JSON with all branches, Markdown with the branch that is shown.

import { Conversation, newId, ROOT } from "./conversation.js";
import { asText } from "./attachments.js";

const FORMAT = "rustorch-conversations";
const STATES = ["done", "stopped", "length", "cut", "failed"];
const FIELDS = [
  "id",
  "parent",
  "role",
  "content",
  "reasoning",
  "files",
  "tools",
  "model",
  "state",
  "completes",
  "stats",
  "created",
  "order",
];

/** The text of an export; `bundles` are { record, messages }. */
export function toJson(bundles) {
  const conversations = bundles.map(({ record, messages }) => ({
    ...record,
    messages: messages.map((message) =>
      Object.fromEntries(FIELDS.filter((name) => message[name] !== undefined).map((name) => [name, message[name]])),
    ),
  }));
  return JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1);
}

export function toMarkdown(conversation) {
  const parts = [`# ${conversation.title}`];
  if (conversation.record.system) parts.push(`## System\n\n${conversation.record.system}`);
  for (const message of conversation.path()) {
    const reasoning = message.reasoning
      ? `<details><summary>Reasoning</summary>\n\n${message.reasoning}\n\n</details>\n\n`
      : "";
    parts.push(
      `## ${message.role === "user" ? "You" : message.model || "Assistant"}\n\n${reasoning}${asText(message)}`,
    );
  }
  return `${parts.join("\n\n")}\n`;
}

/**
 * The conversations in a file that `toJson` wrote, under new ids. Fails with a sentence on anything else.
 */
export function fromJson(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("This file is not JSON. Choose a file that this page exported.");
  }
  if (file?.format !== FORMAT || !Array.isArray(file.conversations)) {
    throw new Error("This file holds no conversations. Choose a file that this page exported.");
  }
  if (file.version !== 1) throw new Error(`This file has version ${file.version}, but this page reads version 1.`);
  return file.conversations.map(readConversation);
}

const string = (value) => (typeof value === "string" ? value : "");
const time = (value) => (Number.isFinite(value) ? value : Date.now());

function readConversation(found) {
  const given = Array.isArray(found?.messages) ? found.messages : [];
  const id = newId();
  const ids = new Map(given.map((message) => [message?.id, newId()]));
  if (ids.size < given.length) throw new Error("Two messages in this file have the same id.");
  const messages = given.map((message, order) => readMessage(message, order, id, ids));
  if (reached(messages) < messages.length) throw new Error("Messages in this file follow each other in a circle.");
  const record = {
    id,
    title: string(found?.title).slice(0, 200),
    created: time(found?.created),
    updated: time(found?.updated),
    system: string(found?.system),
    leaf: ids.get(found?.leaf) ?? ROOT,
  };
  // A leaf that the file lacks becomes the newest message.
  return { record: new Conversation(record, messages).record, messages };
}

function readMessage(message, order, conversation, ids) {
  if (!["user", "assistant"].includes(message?.role))
    throw new Error("A message in this file has no role that is known.");
  const parent = message.parent ? ids.get(message.parent) : ROOT;
  if (parent === undefined) throw new Error("A message in this file follows one that the file lacks.");
  return {
    id: ids.get(message.id),
    conversation,
    parent,
    role: message.role,
    content: string(message.content),
    reasoning: string(message.reasoning),
    files: readFiles(message.files),
    tools: readTools(message.tools),
    model: string(message.model),
    state: STATES.includes(message.state) ? message.state : "done",
    completes: message.completes === true,
    stats: readStats(message.stats),
    created: time(message.created),
    order: Number.isFinite(message.order) ? message.order : order,
  };
}

/** How many messages have a path to the beginning. */
function reached(messages) {
  const children = new Map();
  for (const { id, parent } of messages) {
    if (children.has(parent)) children.get(parent).push(id);
    else children.set(parent, [id]);
  }
  let count = 0;
  for (let next = children.get(ROOT) ?? []; next.length > 0; count += 1) {
    const id = next.pop();
    next.push(...(children.get(id) ?? []));
  }
  return count;
}

const readStats = (stats) =>
  Object.fromEntries(Object.entries(stats ?? {}).filter(([, value]) => Number.isFinite(value)));
const readFiles = (files) =>
  (Array.isArray(files) ? files : []).map((file) => ({ name: string(file?.name), text: string(file?.text) }));
const readTools = (tools) =>
  (Array.isArray(tools) ? tools : []).map((tool) => ({
    id: string(tool?.id),
    name: string(tool?.name),
    arguments: string(tool?.arguments),
  }));

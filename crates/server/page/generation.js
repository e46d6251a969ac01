// An answer that the server is writing: collects the stream into its message.

import { complete } from "./client.js";
import { saveTokens, save } from "./store.js";
import { readChoice, requestFor } from "./request.js";
import { settings } from "./settings.js";
import { model, refreshModels } from "./status.js";
import { Alignment } from "./tokens.js";
import { cut } from "./errors.js";

/** Milliseconds between two writes of an unfinished answer. */
const SAVE_EVERY = 2000;

export class Generation {
  /** `tokens` are those of the text that the message begins with; the server goes on from there. */
  constructor(conversation, message, tokens, { onUpdate, onEnd }) {
    Object.assign(this, { conversation, message, tokens, onUpdate, onEnd });
    this.prefix = message.content;
    this.alignment = new Alignment(tokens, message.content.length);
    this.abort = new AbortController();
    this.saved = 0;
  }

  stop() {
    this.abort.abort();
  }

  async run() {
    const { message } = this;
    message.state = "running";
    delete message.error;
    await this.#save();
    try {
      await this.#ask();
      if (message.state === "running") throw cut();
    } catch (error) {
      if (error.name === "AbortError") {
        message.state = "stopped";
      } else {
        message.state =
          error.kind === "cut" && message.content === "" ? "failed" : error.kind === "cut" ? "cut" : "failed";
        message.error = error.record
          ? error.record()
          : { kind: "page", title: `This page had an error: ${error}`, advice: "Try again." };
      }
    }
    await this.#save();
    await saveTokens(message.id, this.conversation.id, this.tokens);
    this.onEnd(this);
  }

  /** That a model cannot chat shows once it is loaded; then it completes the text. */
  async #ask() {
    const { message } = this;
    try {
      const request = requestFor(this.conversation, message, this.prefix);
      for await (const chunk of complete(request, this.abort.signal)) this.#take(chunk);
    } catch (error) {
      if (error.kind !== "refused" || message.completes) throw error;
      await refreshModels();
      if (!model(message.model)?.completes) throw error;
      message.completes = true;
      await this.#ask();
    }
  }

  #take(chunk) {
    const { message } = this;
    const choice = chunk.choices?.[0];
    const { delta, entries } = readChoice(choice);
    if (delta.reasoning_content) {
      if (!message.reasoning) message.reasoningStarted = Date.now();
      message.reasoning = (message.reasoning ?? "") + delta.reasoning_content;
    }
    if (delta.content) {
      if (message.reasoningStarted && !message.reasoningTime)
        message.reasoningTime = Date.now() - message.reasoningStarted;
      message.content += delta.content;
    }
    // Tokens of the reasoning are not kept: only the answer can be taken up elsewhere.
    const thinking = delta.reasoning_content || (message.reasoning && message.content === "");
    if (!thinking && !delta.tool_calls) this.alignment.add(entries, message.content);
    for (const call of delta.tool_calls ?? []) {
      if ((call.index ?? 0) < 100) this.#call(call);
    }
    if (chunk.timings) message.stats = figures(chunk.timings);
    else if (chunk.usage) message.stats ??= figuresOfUsage(chunk.usage);
    if (choice?.finish_reason) message.state = choice.finish_reason === "length" ? "length" : "done";
    this.onUpdate(this);
    if (Date.now() - this.saved > SAVE_EVERY) this.#save();
  }

  #call({ index = 0, id, function: called = {} }) {
    this.message.tools ??= [];
    const tool = (this.message.tools[index] ??= { id: "", name: "", arguments: "" });
    if (id) tool.id = id;
    if (called.name) tool.name += called.name;
    if (called.arguments) tool.arguments += called.arguments;
  }

  async #save() {
    this.saved = Date.now();
    await save(this.conversation.record, [this.message]);
  }
}

function figures({ prompt_n, cache_n, prompt_per_second, predicted_n, predicted_per_second }) {
  return {
    prompt: (prompt_n ?? 0) + (cache_n ?? 0),
    cached: cache_n ?? 0,
    reading: prompt_per_second,
    written: predicted_n,
    writing: predicted_per_second,
  };
}

function figuresOfUsage({ prompt_tokens, completion_tokens, prompt_tokens_details }) {
  return { prompt: prompt_tokens, cached: prompt_tokens_details?.cached_tokens ?? 0, written: completion_tokens };
}

/** An answer to `parent` that has not begun, or that begins with `content`. */
export const blankAnswer = (content = "", reasoning = "") => ({
  role: "assistant",
  content,
  reasoning,
  model: settings.model,
  completes: model()?.completes ?? false,
  state: "running",
});

// What the page asks of the server: an answer in a chat, or more of a text from a model that cannot chat.

import { asText } from "./attachments.js";
import { probabilityFields, samplingFields, templateFields } from "./settings.js";

/** Tokens that a text grows by at once: a model that cannot chat seldom ends by itself. */
const GROWTH = 256;

/** Path and body of the request for an answer, which begins with `prefix`. */
export function requestFor(conversation, message, prefix) {
  const earlier = conversation
    .path(message.parent)
    .filter(({ role, content }) => role === "user" || content !== "");
  const common = {
    ...(message.model ? { model: message.model } : {}),
    stream: true,
    stream_options: { include_usage: true },
  };
  return message.completes
    ? {
        path: "v1/completions",
        body: {
          ...common,
          prompt: joined(earlier) + prefix,
          max_tokens: GROWTH,
          ...samplingFields(),
          ...probabilityFields({ logprobs: 5 }),
        },
      }
    : {
        path: "v1/chat/completions",
        body: {
          ...common,
          messages: chatMessages(conversation, message, earlier, prefix),
          ...samplingFields(),
          ...templateFields(),
          ...probabilityFields({ logprobs: true, top_logprobs: 8 }),
          timings_per_token: true,
        },
      };
}

function chatMessages(conversation, message, earlier, prefix) {
  const messages = earlier.map((each) => ({ role: each.role, content: asText(each) }));
  const system = conversation.record.system.trim();
  if (system !== "") messages.unshift({ role: "system", content: system });
  if (prefix !== "") {
    const reasoning = message.reasoning ? { reasoning_content: message.reasoning } : {};
    messages.push({ role: "assistant", content: prefix, ...reasoning });
  }
  return messages;
}

/** The texts as one. What a reader adds to the model's words is apart from them by a space, unless one of both has it. */
function joined(messages) {
  return messages.reduce((text, message) => {
    const next = asText(message);
    const apart = message.role === "user" && text !== "" && !/\s$/.test(text) && !/^[\s.,;:!?)]/.test(next);
    return text + (apart ? " " : "") + next;
  }, "");
}

/** What a chunk adds, of either endpoint: the delta, and the log-probabilities of its tokens. */
export function readChoice(choice) {
  if (typeof choice?.text !== "string")
    return { delta: choice?.delta ?? {}, entries: choice?.logprobs?.content ?? [] };
  const { tokens = [], token_logprobs: values = [], top_logprobs: tops = [] } = choice.logprobs ?? {};
  const entries = tokens.map((token, i) => ({
    token,
    logprob: values[i],
    top_logprobs: Object.entries(tops[i] ?? {})
      .map(([other, logprob]) => ({ token: other, logprob }))
      .sort((a, b) => b.logprob - a.logprob),
  }));
  return { delta: { content: choice.text }, entries };
}

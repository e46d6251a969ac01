// Anthropic's client for Node against a server whose chat template has tools.
//
//     node anthropic_client.mjs --url http://127.0.0.1:8080 --model demo
//
// Prints a line for each check, and ends with 1 at the first that fails. With KEYED_URL and KEY, a server that needs this key,
// keys are checked, too. Needs @anthropic-ai/sdk.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import Anthropic from "@anthropic-ai/sdk";

const { url, model } = parseArgs({ options: { url: { type: "string" }, model: { type: "string" } } }).values;
const { messages, models } = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0, timeout: 60_000 });

const ASK = [{ role: "user", content: "What is the capital of Italy?" }];
const ANSWER = "The capital of Italy is Rome.";
const WEATHER = {
  name: "weather",
  description: "Tells the weather.",
  input_schema: {
    type: "object",
    properties: { city: { type: "string", enum: ["Rome", "Oslo"] } },
    required: ["city"],
    additionalProperties: false,
  },
};
// A model this small writes white space wherever a grammar lets it, unless what it repeats becomes less likely.
const FORCED = { temperature: 0, frequency_penalty: 2, max_tokens: 200 };

const ask = (fields = {}) => ({ model, max_tokens: 60, temperature: 0, messages: ASK, ...fields });
const prompt = (usage) => usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;

async function raises(kind, promise) {
  const error = await promise.then(() => assert.fail(`no ${kind.name}`), (error) => error);
  assert.equal(error.constructor, kind, `${error}`);
  return error;
}

const checks = {
  async answers() {
    const got = await messages.create(ask());
    assert.deepEqual(got.content, [{ type: "text", text: ANSWER }]);
    assert.deepEqual([got.type, got.role, got.model, got.stop_reason], ["message", "assistant", model, "end_turn"]);
    assert(got.id.startsWith("msg_") && got._request_id.startsWith("req_") && got.usage.output_tokens > 3);
  },

  async streams_events() {
    const events = [];
    for await (const event of await messages.create(ask({ stream: true }))) events.push(event);
    const kinds = events.map((event) => event.type);
    assert.deepEqual(kinds.slice(0, 2), ["message_start", "content_block_start"]);
    assert.deepEqual(kinds.slice(-3), ["content_block_stop", "message_delta", "message_stop"]);
    assert.equal(events.map((event) => event.delta?.text ?? "").join(""), ANSWER);
    assert.equal(prompt(events[0].message.usage), prompt(events.at(-2).usage));
  },

  async streams_with_the_helper() {
    const stream = messages.stream(ask());
    let text = "";
    stream.on("text", (more) => (text += more));
    const final = await stream.finalMessage();
    const whole = await messages.create(ask());
    assert.deepEqual([text, final.content[0].text, final.stop_reason], [ANSWER, ANSWER, "end_turn"]);
    assert.deepEqual([prompt(final.usage), final.usage.output_tokens], [prompt(whole.usage), whole.usage.output_tokens]);
  },

  async stops() {
    const short = await messages.create(ask({ max_tokens: 2 }));
    assert.deepEqual([short.stop_reason, short.usage.output_tokens], ["max_tokens", 2]);
    const stopped = await messages.create(ask({ stop_sequences: [" is Rome"] }));
    assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ["stop_sequence", " is Rome"]);
    assert.equal(stopped.content[0].text, "The capital of Italy");
  },

  async continues() {
    const begun = [...ASK, { role: "assistant", content: "The capital of Italy" }];
    assert.equal((await messages.create(ask({ messages: begun }))).content[0].text, " is Rome.");
  },

  async calls_tools_and_reads_their_results() {
    const fields = ask({ tools: [WEATHER], tool_choice: { type: "any" }, ...FORCED });
    const got = await messages.create(fields);
    const streamed = await messages.stream(fields).finalMessage();
    for (const answer of [got, streamed]) {
      const [{ type, name, id, input }] = answer.content;
      assert.deepEqual([answer.stop_reason, type, name], ["tool_use", "tool_use", "weather"]);
      assert(id.startsWith("toolu_") && ["Rome", "Oslo"].includes(input.city), JSON.stringify(answer));
    }
    assert.deepEqual(got.content.map((call) => call.input), streamed.content.map((call) => call.input));
    const results = got.content.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: "Sunny." }));
    const next = [...ASK, { role: "assistant", content: got.content }, { role: "user", content: results }];
    const answer = await messages.create(ask({ tools: [WEATHER], messages: next }));
    assert(answer.content[0].text.length > 0, JSON.stringify(answer));
  },

  async keeps_a_schema() {
    const format = { type: "json_schema", schema: WEATHER.input_schema };
    const got = await messages.create(ask({ output_config: { format }, ...FORCED }));
    assert(["Rome", "Oslo"].includes(JSON.parse(got.content[0].text).city), got.content[0].text);
  },

  async counts_tokens() {
    const fields = { model, messages: ASK, system: "Be brief.", tools: [WEATHER] };
    const { input_tokens } = await messages.countTokens(fields);
    assert.equal(input_tokens, prompt((await messages.create(ask(fields))).usage));
  },

  async lists_models() {
    const listed = [];
    for await (const { id, type } of models.list()) listed.push([id, type]);
    assert.deepEqual(listed, [[model, "model"]]);
    const { display_name, created_at } = await models.retrieve(model);
    assert(display_name === model && new Date(created_at).getFullYear() > 2000, created_at);
  },

  async refuses() {
    const image = { type: "image", source: { type: "url", url: "http://127.0.0.1:1/x.png" } };
    const wrong = [
      [{ messages: [] }, "messages"],
      [{ messages: [{ role: "user", content: [image] }] }, "messages[0].content[0]"],
      [{ tools: [{ type: "web_search_20250305", name: "web_search" }], tool_choice: { type: "any" } }, "tool_choice"],
      [{ messages: [{ role: "user", content: "word ".repeat(20_000) }] }, "prompt is too long"],
    ];
    for (const [fields, place] of wrong) {
      for (const stream of [false, true]) {
        const error = await raises(Anthropic.BadRequestError, messages.create(ask({ ...fields, stream })));
        assert.equal(error.error.error.type, "invalid_request_error");
        assert(error.message.includes(place) && error.requestID.startsWith("req_"), error.message);
      }
    }
    await raises(Anthropic.NotFoundError, messages.create(ask({ model: "claude" })));
    await raises(Anthropic.NotFoundError, models.retrieve("claude"));
  },

  async cancels() {
    const controller = new AbortController();
    const endless = ask({ stream: true, max_tokens: 700, temperature: 1, ignore_eos: true });
    const stream = await messages.create(endless, { signal: controller.signal });
    for await (const event of stream) if (event.type === "content_block_delta") controller.abort();
    const running = async () => (await (await fetch(`${url}/metrics`)).text()).match(/^vllm:num_requests_running\{.*\} (.*)$/m)[1];
    for (const end = Date.now() + 30_000; (await running()) !== "0"; await sleep(50)) {
      assert(Date.now() < end, "it runs still");
    }
  },

  async needs_a_key() {
    const { KEYED_URL, KEY } = process.env;
    if (!KEYED_URL) return;
    const keyed = (apiKey) => new Anthropic({ baseURL: KEYED_URL, apiKey, maxRetries: 0 });
    assert.equal((await keyed(KEY).messages.create(ask({ max_tokens: 1 }))).type, "message");
    await raises(Anthropic.AuthenticationError, keyed("wrong").messages.create(ask({ max_tokens: 1 })));
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`ok anthropic ${name}`);
}

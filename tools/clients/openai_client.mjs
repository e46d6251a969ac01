// OpenAI's client for JavaScript.

import assert from "node:assert/strict";

import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { ANSWER, PENALTY, QUESTION, WEATHER, isWeather, run, server } from "./checks.mjs";

const client = new OpenAI({ baseURL: server.openai, apiKey: "none", maxRetries: 0, timeout: 60_000 });
const ask = {
  model: server.model,
  messages: [{ role: "user", content: QUESTION }],
  temperature: 0,
  max_tokens: 60,
};
const chat = (fields) => client.chat.completions.create({ ...ask, ...fields });
const weather = {
  type: "function",
  function: { name: "weather", description: "Tells the weather.", parameters: WEATHER },
};
const Place = z.object({ name: z.string().max(20), isCapital: z.boolean(), size: z.enum(["small", "large"]) });
const forced = { ...ask, frequency_penalty: PENALTY, max_tokens: 400 };
const required = { ...forced, tool_choice: "required", parallel_tool_calls: false };

await run({
  async models() {
    const found = [];
    for await (const { id } of client.models.list()) found.push(id);
    assert.deepEqual(found, [server.model]);
  },

  async answer() {
    const { choices, usage } = await chat();
    assert.match(choices[0].message.content, ANSWER);
    assert.equal(choices[0].finish_reason, "stop");
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  },

  async stream() {
    const pieces = [];
    for await (const chunk of await chat({ stream: true })) pieces.push(chunk.choices[0].delta.content ?? "");
    assert.match(pieces.join(""), ANSWER);
    assert(pieces.length > 3);
  },

  async streamHelper() {
    const runner = client.chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
    let heard = "";
    runner.on("content", (delta) => (heard += delta));
    assert.equal(await runner.finalContent(), heard);
    assert((await runner.totalUsage()).completion_tokens > 3);
  },

  async tools() {
    const { message, finish_reason } = (await chat({ ...required, tools: [weather] })).choices[0];
    assert.equal(finish_reason, "tool_calls");
    isWeather(message.tool_calls[0].function.arguments);
    const streamed = await client.chat.completions.stream({ ...required, tools: [weather] }).finalMessage();
    isWeather(streamed.tool_calls[0].function.arguments);
    const result = { role: "tool", tool_call_id: message.tool_calls[0].id, content: "sunny" };
    const after = await chat({ tools: [weather], messages: [...ask.messages, message, result] });
    assert(after.choices[0].message.content);
  },

  async schema() {
    const format = zodResponseFormat(Place, "place");
    const { choices } = await client.chat.completions.parse({ ...forced, response_format: format });
    Place.parse(choices[0].message.parsed);
    const tool = zodFunction({ name: "note", parameters: Place });
    const noted = await client.chat.completions.parse({ ...required, tools: [tool] });
    Place.parse(noted.choices[0].message.tool_calls[0].function.parsed_arguments);
  },

  async completions() {
    const made = await client.completions.create({ model: server.model, prompt: "One, two,", max_tokens: 5 });
    assert(made.choices[0].text);
  },

  async errors() {
    await assert.rejects(chat({ model: "gpt-none" }), (error) => {
      assert(error instanceof OpenAI.NotFoundError);
      assert.equal(error.code, "model_not_found");
      return true;
    });
    await assert.rejects(chat({ temperature: -1, stream: true }), (error) => {
      assert(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, "temperature");
      return true;
    });
  },

  async cancelled() {
    const events = await chat({ stream: true, max_tokens: 700, ignore_eos: true });
    for await (const _ of events) break;
    await server.forgets();
    const control = new AbortController();
    const answer = client.chat.completions.create(
      { ...ask, max_tokens: 700, ignore_eos: true },
      { signal: control.signal },
    );
    setTimeout(() => control.abort(), 100);
    await assert.rejects(answer, OpenAI.APIUserAbortError);
    await server.forgets();
  },
});

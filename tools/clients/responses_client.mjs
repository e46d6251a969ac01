// OpenAI's client for Node, on `/v1/responses` of a server.
//
//     node tools/clients/responses_client.mjs --url http://127.0.0.1:8080 --model NAME
//
// The server's chat template needs a format of tool calls. Prints a line for each check; the first mismatch ends it with exit code 1.

import assert from "node:assert/strict";
import { parseArgs } from "node:util";

import OpenAI from "openai";

const { url, model } = parseArgs({ options: { url: { type: "string" }, model: { type: "string" } } }).values;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 120_000 });

const ask = { model, input: "What is the capital of Italy?", temperature: 0, max_output_tokens: 60 };
// A small model writes white space wherever a grammar lets it, unless what it repeats becomes less likely.
const forced = { ...ask, frequency_penalty: 2, max_output_tokens: 300 };
const place = { type: "string", enum: ["Rome", "Oslo"] };
const parameters = { type: "object", properties: { place }, required: ["place"], additionalProperties: false };
const weather = { type: "function", name: "weather", description: "Tells the weather.", parameters, strict: true };

const checks = {
  async whole() {
    const response = await client.responses.create(ask);
    assert.equal(response.status, "completed");
    assert.match(response.output_text, /Rome/);
    const { input_tokens, output_tokens, total_tokens } = response.usage;
    assert.equal(total_tokens, input_tokens + output_tokens);
  },

  async stream() {
    const events = [];
    for await (const event of await client.responses.create({ ...ask, stream: true })) events.push(event);
    events.forEach((event, number) => assert.equal(event.sequence_number, number));
    const deltas = events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta);
    const last = events.at(-1);
    assert.equal(last.type, "response.completed");
    assert.equal(deltas.join(""), last.response.output[0].content[0].text);
  },

  async helper() {
    let text = "";
    const stream = client.responses.stream(ask).on("response.output_text.delta", ({ delta }) => (text += delta));
    const response = await stream.finalResponse();
    assert.match(text, /Rome/);
    assert.equal(response.output_text, text);
  },

  async parse() {
    const format = { type: "json_schema", name: "city", schema: parameters, strict: true };
    const response = await client.responses.parse({ ...forced, text: { format } });
    assert(["Rome", "Oslo"].includes(response.output_parsed.place), response.output_text);
  },

  async tools() {
    const input = [{ role: "user", content: "How is the weather in Rome?" }];
    const response = await client.responses.create({ ...forced, input, tools: [weather], tool_choice: "required" });
    const calls = response.output.filter((item) => item.type === "function_call");
    assert(calls.length > 0, JSON.stringify(response.output));
    for (const { call_id, arguments: json } of calls) {
      assert(["Rome", "Oslo"].includes(JSON.parse(json).place), json);
      input.push({ type: "function_call_output", call_id, output: "It rains." });
    }
    input.splice(1, 0, ...response.output);
    const answer = await client.responses.create({ ...ask, input, tools: [weather], tool_choice: "none" });
    assert.equal(answer.output[0].type, "message");
    const stream = client.responses.stream({ ...forced, input: input[0].content, tools: [weather], tool_choice: "required" });
    const streamed = await stream.finalResponse();
    assert.equal(streamed.output[0].arguments, calls[0].arguments);
  },

  async refused() {
    for (const [fields, param] of [
      [{ store: true }, "store"],
      [{ background: true }, "background"],
      [{ tools: [{ type: "code_interpreter", container: { type: "auto" } }] }, "tools[0]"],
    ]) {
      await assert.rejects(client.responses.create({ ...ask, ...fields }), (error) => {
        assert(error instanceof OpenAI.BadRequestError);
        assert.equal(error.param, param);
        return true;
      });
    }
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`ok responses ${name}`);
}

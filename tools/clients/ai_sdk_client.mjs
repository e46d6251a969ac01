// Vercel's AI SDK.

import assert from "node:assert/strict";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, Output, generateObject, generateText, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";

import { ANSWER, PENALTY, QUESTION, run, server } from "./checks.mjs";

const provider = createOpenAICompatible({
  name: "rustorch",
  baseURL: server.openai,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const model = provider(server.model);
const ask = { model, prompt: QUESTION, temperature: 0, maxOutputTokens: 400, maxRetries: 0 };
const forced = { ...ask, frequencyPenalty: PENALTY };
const Place = z.object({ name: z.string().max(20), size: z.enum(["small", "large"]) });

/** A tool, and a loop of two steps: the first must call it, the second answers. */
function calling() {
  const called = [];
  const weather = tool({
    description: "Tells the weather.",
    inputSchema: z.object({ city: z.enum(["Rome", "Oslo"]) }),
    execute: ({ city }) => {
      called.push(city);
      return { sky: "sunny" };
    },
  });
  const loop = {
    ...forced,
    tools: { weather },
    stopWhen: stepCountIs(2),
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
    providerOptions: { rustorch: { parallel_tool_calls: false } },
  };
  return { called, loop };
}

await run({
  async text() {
    const { text, usage, finishReason } = await generateText(ask);
    assert.match(text, ANSWER);
    assert.equal(finishReason, "stop");
    assert(usage.inputTokens > 0 && usage.outputTokens > 0);
  },

  async stream() {
    const { textStream, usage } = streamText(ask);
    const pieces = [];
    for await (const piece of textStream) pieces.push(piece);
    assert.match(pieces.join(""), ANSWER);
    assert(pieces.length > 3 && (await usage).outputTokens > 3);
  },

  async object() {
    Place.parse((await generateObject({ ...forced, schema: Place })).object);
    Place.parse((await generateText({ ...forced, output: Output.object({ schema: Place }) })).output);
    const { partialObjectStream, object } = streamObject({ ...forced, schema: Place });
    for await (const part of partialObjectStream) assert.equal(typeof part, "object");
    Place.parse(await object);
  },

  async tools() {
    const { called, loop } = calling();
    const { steps, text } = await generateText(loop);
    assert.equal(steps.length, 2);
    assert.equal(steps[0].finishReason, "tool-calls");
    assert(called.length === 1 && ["Rome", "Oslo"].includes(called[0]) && text);
  },

  async toolsInAStream() {
    const { called, loop } = calling();
    const result = streamText(loop);
    const kinds = new Set();
    for await (const { type } of result.fullStream) kinds.add(type);
    for (const kind of ["tool-input-start", "tool-input-delta", "tool-call", "tool-result", "text-delta"]) {
      assert(kinds.has(kind), `${kind} is not in ${[...kinds]}`);
    }
    assert.equal(called.length, 1);
  },

  async error() {
    await assert.rejects(generateText({ ...ask, model: provider("gpt-none") }), (error) => {
      assert(APICallError.isInstance(error));
      assert.equal(error.statusCode, 404);
      assert.match(error.message, /there is no model `gpt-none`/);
      return true;
    });
  },

  async cancelled() {
    const control = new AbortController();
    const endless = { ...ask, maxOutputTokens: 700, providerOptions: { rustorch: { ignore_eos: true } } };
    const { textStream } = streamText({ ...endless, abortSignal: control.signal, onError() {} });
    for await (const _ of textStream) control.abort();
    await server.forgets();
  },
});

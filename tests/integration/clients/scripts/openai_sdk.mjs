// OpenAI's SDK for JavaScript.
//
//     node openai_sdk.mjs URL ACTION '{"text": ..., "max_tokens": ...}'
//
// Speaks as the scripts beside it do; see told.py.

import OpenAI from "openai";

const NUM_READ_BEFORE_LEAVING = 3;
const [url, action, asked] = process.argv.slice(2);
const { text, max_tokens } = JSON.parse(asked);
const sdk = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const request = {
  model: "any",
  messages: [{ role: "user", content: text }],
  max_tokens,
  temperature: 0,
};
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather in a city.",
    parameters: {
      type: "object",
      properties: { city: { type: "string", enum: ["Paris", "Oslo"] } },
      required: ["city"],
    },
  },
};

const actions = {
  async chat() {
    const stream_options = { include_usage: true };
    const stream = await sdk.chat.completions.create({ ...request, stream: true, stream_options });
    const pieces = [];
    let num_tokens = null;
    for await (const chunk of stream) {
      pieces.push(chunk.choices[0]?.delta?.content ?? "");
      num_tokens = chunk.usage?.completion_tokens ?? num_tokens;
    }
    return { pieces, num_tokens };
  },

  async call() {
    const more = { tools: [weather], tool_choice: "required" };
    const reply = await sdk.chat.completions.create({ ...request, ...more });
    const [made] = reply.choices[0].message.tool_calls;
    return { name: made.function.name, arguments: JSON.parse(made.function.arguments) };
  },

  async leave() {
    const stream = await sdk.chat.completions.create({ ...request, stream: true });
    let num_read = 0;
    for await (const chunk of stream) {
      num_read += 1;
      if (num_read === NUM_READ_BEFORE_LEAVING) stream.controller.abort();
    }
    return {};
  },
};

console.log(JSON.stringify(await actions[action]()));
process.stdin.resume(); // stay until the input ends

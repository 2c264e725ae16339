// Asks a running server with OpenAI's own JavaScript client:
//
//	npm install openai@7.53.0
//	galley serve DIR --chat-template FILE &
//	node client.mjs http://127.0.0.1:8000/v1 MODEL [KEY]
//
// Prints a line for each thing that was tried, and ends with 1 where one was not as it should be.
import OpenAI from "openai";

const [baseURL, model, apiKey = "none"] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "Hi" }];
const schema = {
  type: "object",
  properties: { n: { type: "integer", minimum: 1, maximum: 9 }, word: { type: "string", maxLength: 8 } },
  required: ["n", "word"],
  additionalProperties: false,
};
let failed = 0;

async function check(name, f) {
  try {
    const seen = await f();
    console.log(`ok    ${name}: ${seen}`);
  } catch (e) {
    failed++;
    console.log(`wrong ${name}: ${e}`);
  }
}

function want(ok, what) {
  if (!ok) throw new Error(`got ${JSON.stringify(what)}`);
}

const ask = (more) => client.chat.completions.create({ model, messages, max_tokens: 200, seed: 1, ...more });

await check("models", async () => {
  const list = await client.models.list();
  want(list.data.some((m) => m.id === model), list.data);
  return list.data.map((m) => m.id).join(" ");
});
await check("chat, whole and streamed", async () => {
  const whole = await ask({ temperature: 0, max_tokens: 20 });
  let text = "", usage = null;
  const stream = await ask({ temperature: 0, max_tokens: 20, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
  }
  want(text === whole.choices[0].message.content && usage.completion_tokens === whole.usage.completion_tokens, text);
  return `${usage.completion_tokens} tokens`;
});
await check("tools", async () => {
  const tools = [{ type: "function", function: { name: "count", parameters: schema } }];
  const a = await ask({ tools, tool_choice: "required" });
  const call = a.choices[0].message.tool_calls[0];
  const n = JSON.parse(call.function.arguments).n;
  want(call.function.name === "count" && n >= 1 && n <= 9 && a.choices[0].finish_reason === "tool_calls", a);
  return call.function.arguments;
});
await check("JSON schema", async () => {
  const a = await ask({ response_format: { type: "json_schema", json_schema: { name: "x", schema, strict: true } } });
  const v = JSON.parse(a.choices[0].message.content);
  want(v.n >= 1 && v.n <= 9 && typeof v.word === "string", v);
  return a.choices[0].message.content;
});
await check("log-probabilities", async () => {
  const a = await ask({ logprobs: true, top_logprobs: 2, max_tokens: 3 });
  const list = a.choices[0].logprobs.content;
  want(list.length > 0 && list[0].top_logprobs.length === 2 && list[0].logprob <= 0, list);
  return list.map((x) => x.logprob.toFixed(2)).join(" ");
});
await check("embeddings", async () => {
  const a = await client.embeddings.create({ model, input: ["a", "b"] });
  want(a.data.length === 2 && Math.abs(a.data[0].embedding.reduce((s, x) => s + x * x, 0) - 1) < 1e-3, a.data.length);
  return `${a.data[0].embedding.length} numbers`;
});
await check("responses", async () => {
  const a = await client.responses.create({ model, input: "Hi", max_output_tokens: 5 });
  want(a.output[0].type === "message", a);
  return a.status;
});
await check("errors", async () => {
  try {
    await client.chat.completions.create({ model: "nobody", messages });
  } catch (e) {
    want(e instanceof OpenAI.NotFoundError && e.code === "model_not_found", e);
    return e.message;
  }
  throw new Error("got an answer");
});
await check("cancel", async () => {
  const stream = await ask({ stream: true });
  for await (const _ of stream) stream.controller.abort();
  const a = await ask({ max_tokens: 2 });
  want(a.usage.completion_tokens <= 2, a.usage);
  return "the next request was answered";
});
process.exit(failed ? 1 : 0);

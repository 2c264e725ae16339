// OpenAI's own client against a server of ours: node check.mjs http://127.0.0.1:8000 KEY MODEL
import assert from "node:assert/strict";
import OpenAI from "openai";

const [url, apiKey, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url + "/v1", apiKey, maxRetries: 0 });

const list = await client.models.list();
assert.deepEqual(list.data.map((m) => m.id), [model]);
assert.equal((await client.models.retrieve(model)).id, model);

const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "Hello" }];
const ask = { model, messages, max_completion_tokens: 12, seed: 3, temperature: 0.7 };
const whole = await client.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 2, n: 2 });
assert.equal(whole.choices.length, 2);
assert.equal(whole.choices[0].message.role, "assistant");
assert.equal(whole.choices[0].logprobs.content[0].top_logprobs.length, 2);
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);

let text = "", usage = null;
const stream = await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } });
for await (const e of stream) {
  text += e.choices[0]?.delta?.content ?? "";
  usage = e.usage ?? usage;
}
assert.equal(text, whole.choices[0].message.content);
assert.ok(usage.completion_tokens > 0);

const final = await client.chat.completions.stream(ask).finalChatCompletion();
assert.equal(final.choices[0].message.content, text);

const done = await client.completions.create({ model, prompt: ["one", "two"], max_tokens: 4, echo: true, logprobs: 1 });
assert.equal(done.choices.length, 2);
assert.ok(done.choices[1].text.startsWith("two"));

for (const encoding_format of ["float", "base64", undefined]) {
  const x = await client.embeddings.create({ model, input: "text", encoding_format });
  assert.ok(x.data[0].embedding.length > 0);
}

await assert.rejects(client.chat.completions.create({ ...ask, model: "other" }), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ ...ask, temperature: -1 }), OpenAI.BadRequestError);
await assert.rejects(client.chat.completions.create({ ...ask, max_completion_tokens: 1e6 }),
  (e) => e.code === "context_length_exceeded");
await assert.rejects(new OpenAI({ baseURL: url + "/v1", apiKey: "wrong", maxRetries: 0 }).models.list(),
  OpenAI.AuthenticationError);

const long = await client.completions.create({ model, prompt: "x", max_tokens: 400, stream: true });
for await (const e of long) {
  assert.ok(e.choices);
  long.controller.abort();
  break;
}
for (let i = 0; ; i++) { // what was left is given back
  const m = await (await fetch(url + "/metrics")).text();
  if (/galley_num_requests_running\{[^}]*\} 0\n/.test(m) && /galley_kv_cache_usage_perc\{[^}]*\} 0\n/.test(m)) break;
  assert.ok(i < 100, m);
  await new Promise((r) => setTimeout(r, 50));
}
console.log("openai " + (await import("openai/version")).VERSION + ": ok");

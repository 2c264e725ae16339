// The choices of llama.cpp after a given text: node llama_tokens.mjs FILE.gguf THREADS CACHE PROMPT < TOKENS
// keeps keys and values as CACHE (F16, or F32 without flash attention, which would round them), reads tokens
// as a JSON list, evaluates PROMPT and then one of them after the other, and prints for each the
// log-probabilities of llama.cpp's first choices in its place: [[[token, log-probability], ...], ...].
import {readFileSync} from "node:fs";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const [file, threads, cache, prompt] = process.argv.slice(2);
const tokens = JSON.parse(readFileSync(0));
const llama = await getLlama({
  gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: +threads,
});
const model = await llama.loadModel({modelPath: file});
const before = model.tokenize(prompt);
const context = await model.createContext({
  contextSize: before.length + tokens.length + 64, threads: +threads,
  experimentalKvCacheKeyType: cache, experimentalKvCacheValueType: cache,
  flashAttention: cache === "F16",
});
const sequence = context.getSequence();
const next = {generateNext: {logits: {filter: {tokens: [], includeTop: 8}}, totalLogitWeight: true}};

// Logits of one evaluation are relative to their largest; the weight is the sum of all exp(logit - largest).
const choices = ({logits, totalLogitWeight}) => {
  const all = [...logits.entries()];
  const largest = Math.max(...all.map(([, x]) => x));
  return all.map(([id, x]) => [id, x - largest - Math.log(totalLogitWeight)]);
};
let out = (await sequence.controlledEvaluate([...before.slice(0, -1), [before.at(-1), next]])).at(-1);
const list = [choices(out.next)];
for (const id of tokens.slice(0, -1)) {
  [out] = await sequence.controlledEvaluate([[id, next]]);
  list.push(choices(out.next));
}
process.stdout.write(JSON.stringify(list), () => process.exit(0));

// Times llama.cpp by node-llama-cpp: node infer.mjs FILE.gguf THREADS PROMPT TOKENS SEQUENCES
// prints {"prefill": tokens/s, "decode": tokens/s by the median step, "cpu": ms of processor time a token}.
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const [file, threads, prompt, tokens, sequences] = process.argv.slice(2);
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: +threads});
const model = await llama.loadModel({modelPath: file});
const seconds = () => Number(process.hrtime.bigint()) / 1e9;

const n = +sequences;
const context = await model.createContext({
  contextSize: +prompt + +tokens + 16, threads: +threads, sequences: n, batchSize: 512,
});
const all = Array.from({length: n}, () => context.getSequence());
const vocab = model.fileInfo.metadata[model.fileInfo.metadata.general.architecture].vocab_size;
const ids = (i) => Array.from({length: +prompt}, (_, j) => (7 * i + 31 * j) % vocab);
let began = seconds();
for (let i = 0; i < n; i++) await all[i].evaluateWithoutGeneratingNewTokens(ids(i));
const prefill = (n * +prompt) / (seconds() - began);

// The first token of each comes before the clock: it is where sequences meet.
let started = 0, release, cpu;
const gaps = [];
const gate = new Promise((r) => { release = r; });
const run = async (s, i) => {
  let count = 0, last;
  for await (const _ of s.evaluate([1], {temperature: 0, yieldEogToken: true})) {
    if (count++ === 0) {
      if (++started === n) { cpu = process.cpuUsage(); release(); }
      await gate;
    } else if (i === 0) {
      gaps.push(seconds() - last);
    }
    last = seconds();
    if (count > +tokens) break;
  }
};
await Promise.all(all.map(run));
const used = process.cpuUsage(cpu);
const step = gaps.sort((a, b) => a - b)[gaps.length >> 1];
console.log(JSON.stringify({prefill, decode: n / step, cpu: (used.user + used.system) / 1e3 / (n * +tokens)}));
process.exit(0);

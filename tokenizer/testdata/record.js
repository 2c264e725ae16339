// Records what Hugging Face's library makes of texts: npm install tokenizers@0.23.2, then node record.js DIR...
// Each DIR has tokenizer.json and texts.json, a list; cases.json is written beside them, for every text and for the
// pairs of neighbours 0 and 1, 7 and 8, 9 and "".
const {Tokenizer} = require('tokenizers');
const fs = require('fs');

async function record(dir) {
  const t = Tokenizer.fromFile(dir + '/tokenizer.json');
  const texts = JSON.parse(fs.readFileSync(dir + '/texts.json'));
  const cases = [];
  async function one(text, pair) {
    const e = await t.encode(text, pair, {addSpecialTokens: true});
    const ids = e.getIds();
    const c = {text, ids, offsets: e.getOffsets(), decoded: await t.decode(ids, false), shown: await t.decode(ids, true)};
    if (pair != null) Object.assign(c, {pair, types: e.getTypeIds()});
    cases.push(c);
  }
  for (const text of texts) await one(text, null);
  for (const [a, b] of [[texts[0], texts[1]], [texts[7], texts[8]], [texts[9], '']]) await one(a, b);
  fs.writeFileSync(dir + '/cases.json', '[\n' + cases.map(c => JSON.stringify(c)).join(',\n') + '\n]\n');
}

(async () => { for (const dir of process.argv.slice(2)) await record(dir); })();

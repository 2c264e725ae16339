// Encodes mixed.jsonl with Hugging Face's tokenizers on one thread: npm install tokenizers@0.13.3 tokenizers-linux-x64-gnu, then
// RAYON_NUM_THREADS=1 node peer.js tokenizer.json. Its version wants merges as "a b" in place of pairs.
const {Tokenizer}=require('tokenizers');const fs=require('fs');
(async()=>{const t=Tokenizer.fromFile(process.argv[2]);const lines=fs.readFileSync('mixed.jsonl','utf8').split('\n').filter(x=>x).map(x=>JSON.parse(x).text);
const all=[];const u0=process.cpuUsage();const w0=Date.now();let n=0;
for(const l of lines){const e=await t.encode(l,null,{addSpecialTokens:true});const ids=e.getIds();n+=ids.length;all.push(ids);}
const u=process.cpuUsage(u0);console.log('hf',n,'tokens wall',(Date.now()-w0)/1000,'cpu',(u.user+u.system)/1e6);
const b=Buffer.alloc(n*4);let k=0;for(const ids of all)for(const id of ids){b.writeInt32LE(id,k);k+=4}
fs.writeFileSync('peer.bin',b);})();

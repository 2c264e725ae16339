"""Writes mixed.jsonl: 100 MB of text in ten scripts, English from a book, the others of made-up words.
Run in the repository's root: python3 bench/tokenizer/mixed.py [MEGABYTES] [FILE]"""
import random, json, sys
random.seed(7)
moby=open('data/moby-dick.txt').read()
ranges={'cyrillic':(0x430,0x44f),'greek':(0x3b1,0x3c9),'arabic':(0x627,0x64a),'hebrew':(0x5d0,0x5ea),'devanagari':(0x905,0x939),'han':(0x4e00,0x5200),'hiragana':(0x3041,0x3093),'hangul':(0xac00,0xb000),'thai':(0xe01,0xe2e)}
vocab={}
for k,(a,b) in ranges.items():
    n=2 if k in('han','hangul') else 6
    vocab[k]=[''.join(chr(random.randint(a,b)) for _ in range(random.randint(1,n))) for _ in range(6000)]
weights=[1/(i+3) for i in range(6000)]
out=open(sys.argv[2] if len(sys.argv)>2 else 'mixed.jsonl','w'); size=0; pos=0
keys=list(vocab)
limit=int(sys.argv[1] if len(sys.argv)>1 else 100)*1_000_000
while size<limit:
    parts=[]
    start=random.randrange(len(moby)-2500); parts.append(moby[start:start+2000])
    for k in random.sample(keys,4):
        ws=random.choices(vocab[k],weights,k=150)
        sep='' if k in('han','hiragana','thai') else ' '
        t=''
        for w in ws:
            t+=w+(random.choice(['. ',', ','! ',' 42 ','\n']) if random.random()<.1 else sep)
        parts.append(t)
    random.shuffle(parts)
    text='\n'.join(parts); size+=len(text.encode()); out.write(json.dumps({'text':text},ensure_ascii=False)+'\n')

"""Writes a tokenizer.json with its merges as "a b" in place of pairs, as tokenizers 0.13 reads them.
Run: python3 oldmerges.py FROM TO"""
import json, sys
t = json.load(open(sys.argv[1]))
t["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in t["model"]["merges"]]
json.dump(t, open(sys.argv[2], "w"), ensure_ascii=False)

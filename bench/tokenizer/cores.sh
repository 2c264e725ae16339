#!/bin/sh
# Tokenizes text in ten scripts with one worker and with two, in turn, and compares what they write. Prints tokens/s
# of each round, the ratio of the best ones, and whether all ids are the same. Beside it, where npm's tokenizers is
# installed in the directory, Hugging Face's own on one thread, with the same tokenizer and text.
# Run in the repository's root: bench/tokenizer/cores.sh [MEGABYTES] [ROUNDS]
set -eu
mb=${1:-20} rounds=${2:-3}
root=$(pwd) work=${WORK:-$(mktemp -d)}
[ -x "$work/galley" ] || go build -o "$work/galley" ./cmd/galley
[ -f "$work/mixed.jsonl" ] || python3 bench/tokenizer/mixed.py "$mb" "$work/mixed.jsonl"
cd "$work"
[ -f tokenizer.json ] || ./galley tokenizer train mixed.jsonl --vocab 4096 --out tokenizer.json >/dev/null
now() { date +%s.%N; }
round() { # workers: seconds, and those of processors
	rm -rf "shards$1"
	begin=$(now)
	used=$({ bash -c "TIMEFORMAT='%U %S'; time ./galley data tokenize mixed.jsonl --tokenizer tokenizer.json \
		--workers $1 --out shards$1 >/dev/null 2>&1"; } 2>&1)
	end=$(now)
	echo "$begin $end $used" | awk '{ printf "%.3f %.3f\n", $2 - $1, $3 + $4 }'
}
: >one.times
: >two.times
for i in $(seq "$rounds"); do
	round 1 >>one.times
	round 2 >>two.times
done
tokens=$(sed -n 's/.*"tokens": *\([0-9]*\).*/\1/p' shards1/shards.json | head -1)
cat shards1/*.bin >one.ids
cat shards2/*.bin >two.ids
sort -n one.times | head -1 >one.best
sort -n two.times | head -1 >two.best
load=$(cut -d' ' -f1 /proc/loadavg)
cat one.best two.best | awk -v n="$tokens" -v load="$load" '
	NR == 1 { a = $1; u = $2 }
	NR == 2 { b = $1; v = $2 }
	END {
		printf "%d tokens, best of the rounds, load %s\n", n, load
		printf "1 worker   %6.2f s  %6.2fM tokens/s  %6.2f s of processors\n", a, n / a / 1e6, u
		printf "2 workers  %6.2f s  %6.2fM tokens/s  %6.2f s of processors, %.2f times as many tokens/s\n",
			b, n / b / 1e6, v, a / b
	}'
if cmp -s one.ids two.ids; then echo "all ids are the same"; else
	echo "ids differ" >&2
	exit 1
fi
if node -e "require('tokenizers')" 2>/dev/null; then
	python3 "$root/bench/tokenizer/oldmerges.py" tokenizer.json peer.json
	cp "$root/bench/tokenizer/peer.js" .
	RAYON_NUM_THREADS=1 node peer.js peer.json
	python3 -c "import array
ids = array.array('H', open('one.ids', 'rb').read())
open('wide.ids', 'wb').write(array.array('i', ids).tobytes())"
	if cmp -s peer.bin wide.ids; then echo "its ids are the same"; else echo "its ids differ" >&2 && exit 1; fi
else
	echo "skipped: npm's tokenizers: npm install tokenizers@0.13.3 tokenizers-linux-x64-gnu in $work, and WORK=$work"
fi

#!/usr/bin/env bash
# comm.sh [GALLEY]: what all-reduces of float32 between two processes take, in microseconds: galley over MPICH and over
# Open MPI, these libraries' own MPI_Allreduce, gloo, and two devices of one process. All take turns in rounds, and the
# median of the rounds is printed: one minute is as busy as the next for all of them. What is not installed is left out.
set -euo pipefail
galley=${1:-galley}
sizes=64,4096,65536,1048576,4194304,67108864
out=$(mktemp)
trap 'rm -f "$out"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
python=$(command -v /usr/bin/python3 || command -v python3 || true)
for round in 1 2 3; do
	if command -v mpiexec.hydra >/dev/null; then
		mpiexec.hydra -n 2 "$galley" bench comm --json --bytes "$sizes" | sed 's/^/mpich /' >>"$out"
	fi
	if command -v mpirun.openmpi >/dev/null; then
		mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n 2 "$galley" bench comm --json --bytes "$sizes" |
			tr -d '\r' | sed 's/^/openmpi /' >>"$out"
	fi
	if [ -n "$python" ] && "$python" -c 'import torch.distributed' 2>/dev/null; then
		port=$((20000 + RANDOM % 20000))
		"$python" "$here/gloo.py" 1 "$port" "$sizes" &
		other=$!
		"$python" "$here/gloo.py" 0 "$port" "$sizes" | sed 's/^/gloo /' >>"$out"
		wait "$other"
	fi
	echo "round $round" >&2
done
"${python:-python3}" - "$out" <<'PY'
import collections, json, statistics, sys

columns = ["in one process", "galley, MPICH", "MPICH", "galley, Open MPI", "Open MPI", "gloo"]
table = collections.defaultdict(lambda: collections.defaultdict(list))
for line in open(sys.argv[1]):
    kind, text = line.split(" ", 1)
    r = json.loads(text)
    name = {"mpich": "MPICH", "openmpi": "Open MPI"}.get(kind)
    row = table[r["bytes"]]
    if name:
        row["in one process"].append(r["in_process_us"])
        row["galley, " + name].append(r["galley_us"])
        row[name].append(r["mpi_allreduce_us"])
    else:
        row["gloo"].append(r["gloo_us"])
print("| bytes | " + " | ".join(columns) + " |\n|---" * 1 + "|---" * len(columns) + "|")
for n in sorted(table):
    cells = [f"{statistics.median(table[n][c]):.1f}" if table[n][c] else "" for c in columns]
    print(f"| {n} | " + " | ".join(cells) + " |")
PY

#!/usr/bin/env bash
# processes.sh [speed] [context] [overlap]: figures of several processes, each beside what it is compared with, by
# turns; the best of each counts. It wants a machine with nothing else to do, and galley on the path (or GALLEY).
#
#   speed    train --mesh dp=2 --zero 1 in two processes against two devices of one       want >= 0.97
#   context  cp=2 on 16k tokens, two processes of a core each against one with one core   want >= 1.7, memory halved
#   overlap  --overlap on against off over 1 Gbit/s between two namespaces (root)         want >= 1.10
#
#   ROUNDS=5 STEPS=40 bench/processes.sh speed
set -euo pipefail
galley=${GALLEY:-galley}
rounds=${ROUNDS:-5}
here=$(cd "$(dirname "$0")" && pwd)

# rate COMMAND...: the last speed that a run tells, tokens a second.
rate() { "$@" 2>/dev/null | grep -oE '[0-9]+ tokens/s' | tail -1 | cut -d' ' -f1; }

# best NAME NAME: two functions by turns, and how much faster the first is.
best() {
	local a=0 b=0 x
	for _ in $(seq "$rounds"); do
		x=$(rate "$1"); x=${x:-0}; [ "$x" -le "$a" ] || a=$x
		x=$(rate "$2"); x=${x:-0}; [ "$x" -le "$b" ] || b=$x
	done
	awk -v a="$a" -v b="$b" -v x="$1" -v y="$2" \
		'BEGIN { printf "%s %d tokens/s, %s %d tokens/s: %.2f times\n", x, a, y, b, b ? a / b : 0 }'
}

# tree PID: a process and all below it.
tree() {
	echo "$1"
	local pid
	for pid in $(pgrep -P "$1" || true); do tree "$pid"; done
}

# peak COMMAND...: the most memory, in MiB, that the largest process of a command has had.
peak() {
	"$@" >/dev/null 2>&1 &
	local of=$! most=0 kb
	while kill -0 "$of" 2>/dev/null; do
		for pid in $(tree "$of"); do
			kb=$(awk '/VmHWM/ { print $2 }' "/proc/$pid/status" 2>/dev/null || true)
			[ "${kb:-0}" -le "$most" ] || most=$kb
		done
		sleep 0.05
	done
	wait "$of" || true
	echo $((most / 1024))
}

train="train --tokens 0 --steps ${STEPS:-40}"
# shellcheck disable=SC2086 # flags are several words
two_processes() { "$galley" launch -n 2 -- $train --mesh dp=2 --zero 1; }
# shellcheck disable=SC2086
one_process() { "$galley" $train --mesh dp=2 --zero 1; }
speed() { best two_processes one_process; }

long="train --tokens 0 --steps ${STEPS:-4} --seq ${SEQ:-16384} --batch 1 --dim 128 --layers 2 --heads 4 --threads 1"
# shellcheck disable=SC2086
two_cores() { taskset -c 0,1 "$galley" launch -n 2 --bind cores -- $long --mesh cp=2; }
# shellcheck disable=SC2086
one_core() { taskset -c 0 "$galley" $long; }
context() {
	best two_cores one_core
	echo "two_cores $(peak two_cores) MiB a process, one_core $(peak one_core) MiB"
}

link='tbf rate 1gbit burst 1mb latency 50ms'
wide="train --tokens 0 --steps ${STEPS:-10} --mesh dp=2 --zero 1 --threads 1"
# shellcheck disable=SC2086
overlap_on() { "$here/namespaces.sh" "$link" mpiexec.hydra -n 2 "$here/onhost.sh" "$galley" $wide --overlap on; }
# shellcheck disable=SC2086
overlap_off() { "$here/namespaces.sh" "$link" mpiexec.hydra -n 2 "$here/onhost.sh" "$galley" $wide --overlap off; }
overlap() { best overlap_on overlap_off; }

[ $# -gt 0 ] || set -- speed context overlap
for figure in "$@"; do
	case $figure in
	speed | context | overlap) "$figure" ;;
	*) echo "processes.sh: $figure: want speed, context or overlap" >&2; exit 2 ;;
	esac
done

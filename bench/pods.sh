#!/usr/bin/env bash
# pods.sh [STEPS]: a job as Kubernetes runs it, faked on this machine: two pods are network namespaces with names and
# a /dev/shm of their own, which run what galley kubernetes writes. The second gets SIGTERM, as before an eviction,
# leaves in order, and comes back with another address. The losses are compared with those of one process.
# A pod has a process namespace of its own, so that its end is the end of all that runs in it: no process stays behind,
# whether this script comes to its end, fails, or is killed.
# It needs root, iproute2, util-linux, MPICH, and galley on the path (or GALLEY for it).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
galley=$(command -v "${GALLEY:-galley}")
if [ -z "${GALLEY_TWO_HOSTS:-}" ]; then
	exec "$here/namespaces.sh" none "$0" "$@"
fi
steps=${1:-6000}
dir=$(mktemp -d -t pods.XXXX)
pods=()
finish() {
	trap - EXIT
	for pod in "${pods[@]}"; do
		kill -KILL "$pod" 2>/dev/null || true
		wait "$pod" 2>/dev/null || true
	done
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
flags="--tokens 0 --dim 32 --layers 2 --heads 2 --seq 16 --batch 8 --threads 1 --log-losses --mesh dp=2 --steps $steps"

# pod HOST NAME ADDRESS: the container of a pod, in the background; its number is in $last. It ends with this script,
# and what runs in it with it.
pod() {
	export UCX_TLS=tcp,self UCX_NET_DEVICES="v$GALLEY_TWO_HOSTS-$1" MPIR_CVAR_NOLOCAL=1 POD_IP=$3
	# shellcheck disable=SC2016,SC2086 # the inner shell expands; flags are several words
	setpriv --pdeathsig KILL ip netns exec "g$GALLEY_TWO_HOSTS-$1" \
		unshare --uts --mount-proc --pid --fork --kill-child bash -c '
		hostname "$1"; mount -t tmpfs tmpfs /dev/shm; shift; exec "$@"' - "$2" \
		"$galley" launch --elastic 1:2 -n 1 --job "pods$GALLEY_TWO_HOSTS" --lease 5s --address "$3" --etcd "embedded=pod-0@10.77.0.1" \
		-- train $flags >>"$dir/$2.log" 2>&1 &
	last=$!
	pods+=("$last")
}

# leave POD: SIGTERM to the first process of a pod, as before an eviction; unshare, around it, takes no notice.
leave() {
	local agent
	agent=$(pgrep -P "$1") && kill -TERM "$agent"
}

# until FILE TEXT: waits until a log tells of something.
until_told() {
	for _ in $(seq 600); do
		grep -q "$2" "$dir/$1.log" 2>/dev/null && return
		sleep 0.1
	done
	echo "pods.sh: no '$2' in the log of $1:" >&2
	tail -20 "$dir/$1.log" >&2
	exit 1
}

pod 0 pod-0 10.77.0.1; first=$last
until_told pod-0 '^step 3 '
pod 1 pod-1 10.77.0.2; second=$last
until_told pod-0 'processes on pod-0, pod-1'
leave "$second"
wait "$second" || { echo "pods.sh: SIGTERM: exit code $?" >&2; exit 1; }
ip -n "g$GALLEY_TWO_HOSTS-1" addr del 10.77.0.2/24 dev "v$GALLEY_TWO_HOSTS-1"
ip -n "g$GALLEY_TWO_HOSTS-1" addr add 10.77.0.3/24 dev "v$GALLEY_TWO_HOSTS-1"
pod 1 pod-1 10.77.0.3; second=$last
wait "$first" || { echo "pods.sh: the job failed" >&2; tail -20 "$dir/pod-0.log" >&2; exit 1; }
leave "$second" 2>/dev/null || true
wait "$second" 2>/dev/null || true
unset UCX_TLS UCX_NET_DEVICES MPIR_CVAR_NOLOCAL
# shellcheck disable=SC2086
"$galley" train $flags 2>/dev/null | grep '^step [0-9]* loss' | sort -u >"$dir/want"
cat "$dir"/pod-*.log | grep '^step [0-9]* loss' | sort -u >"$dir/got"
cmp "$dir/want" "$dir/got" || exit 1
echo "pods.sh: $(wc -l <"$dir/got") steps, the losses of one process; epochs:"
grep -h 'epoch' "$dir/pod-0.log" | head -5

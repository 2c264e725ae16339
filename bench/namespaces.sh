#!/usr/bin/env bash
# namespaces.sh SHAPE COMMAND...: runs a command with two hosts on this machine: network namespaces that a veth pair
# joins, with names of their own. SHAPE is what tc does to both ends, such as 'tbf rate 1gbit burst 1mb latency 50ms'
# or 'netem delay 1ms', or none. bench/onhost.sh, started once for each process, takes it to its host.
# It needs root and iproute2.
#
#   bench/namespaces.sh none mpiexec.hydra -n 2 bench/onhost.sh galley train --mesh dp=2
set -euo pipefail
for tool in ip tc unshare setpriv; do
	command -v "$tool" >/dev/null || { echo "namespaces.sh: no $tool: install iproute2 and util-linux" >&2; exit 77; }
done
shape=$1
shift
id=$$
child=
finish() {
	trap - EXIT
	[ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2>/dev/null || true
	ip netns del "g$id-0" 2>/dev/null || true
	ip netns del "g$id-1" 2>/dev/null || true
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
ip netns add "g$id-0" 2>/dev/null || { echo "namespaces.sh: no namespaces: it needs root" >&2; exit 77; }
ip netns add "g$id-1"
ip link add "v$id-0" netns "g$id-0" type veth peer name "v$id-1" netns "g$id-1"
for i in 0 1; do
	ip -n "g$id-$i" addr add "10.77.0.$((i + 1))/24" dev "v$id-$i"
	ip -n "g$id-$i" link set lo up
	ip -n "g$id-$i" link set "v$id-$i" up
	# shellcheck disable=SC2086 # the shape is several words
	[ "$shape" = none ] || tc -n "g$id-$i" qdisc add dev "v$id-$i" root $shape 2>/dev/null ||
		{ echo "namespaces.sh: this kernel cannot shape a link so: $shape" >&2; exit 77; }
done
for i in 0 1; do
	for _ in $(seq 50); do
		ip -n "g$id-$i" link show "v$id-$i" | grep -q 'state UP' && break
		sleep 0.1
	done
done
export GALLEY_TWO_HOSTS=$id
# In the background, so that a signal reaches the trap above at once; it ends with this script, even a killed one.
setpriv --pdeathsig TERM "$@" <&0 &
child=$!
code=0
wait "$child" || code=$?
child=
exit "$code"

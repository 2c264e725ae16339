#!/usr/bin/env bash
# slurm.sh COMMAND...: runs a command where Slurm has this one machine: its own munged, slurmctld and slurmd,
# in a directory that is removed at the end. It needs root, slurm-wlm and munge.
#
#   bench/slurm.sh srun -n 2 --mpi=pmi2 galley train --mesh dp=2
set -euo pipefail
for tool in munged slurmctld slurmd srun; do
	command -v "$tool" >/dev/null || { echo "slurm.sh: no $tool: install slurm-wlm and munge" >&2; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "slurm.sh: it starts slurmd, which needs root" >&2; exit 77; }

# Slurm's PMIx plugin opens libpmix.so, a name that Debian has in libpmix-dev alone: it is given in a namespace.
plugin=/usr/lib/$(uname -m)-linux-gnu/pmix2/lib
if [ -e "$plugin/libpmix.so.2" ] && [ ! -e "$plugin/libpmix.so" ] && [ -z "${SLURM_SH_INNER:-}" ]; then
	SLURM_SH_INNER=1 exec unshare --mount "$0" "$@"
fi

dir=$(mktemp -d)
pids=()
finish() {
	for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
		kill "${pids[i]}" 2>/dev/null || true
		wait "${pids[i]}" 2>/dev/null || true
	done
	[ -z "${SLURM_SH_INNER:-}" ] || umount "$plugin" 2>/dev/null || true
	rm -rf "$dir"
}
trap finish EXIT

port=$((20000 + RANDOM % 20000))
host=$(hostname -s)
cores=$(nproc)
chmod 755 "$dir"
mkdir -p "$dir"/{munge,state,spool}
chmod 711 "$dir/munge" # its socket is for everybody, its key is not
head -c 64 /dev/urandom >"$dir/munge/key"
chmod 400 "$dir/munge/key"
cat >"$dir/slurm.conf" <<CONF
ClusterName=here
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SelectType=select/cons_tres
MaxJobCount=16
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cores State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:16
CONF
if [ -n "${SLURM_SH_INNER:-}" ]; then
	mkdir "$dir/pmix"
	cp -a "$plugin/." "$dir/pmix/"
	ln -s libpmix.so.2 "$dir/pmix/libpmix.so"
	mount --bind "$dir/pmix" "$plugin"
fi
export SLURM_CONF=$dir/slurm.conf

munged --foreground --socket="$dir/munge/socket" --key-file="$dir/munge/key" --pid-file="$dir/munge/pid" \
	--log-file="$dir/munge/log" --seed-file="$dir/munge/seed" --num-threads=1 >"$dir/munged.out" 2>&1 &
pids+=($!)
for _ in $(seq 600); do [ -S "$dir/munge/socket" ] && break; sleep 0.1; done
slurmctld -D -f "$SLURM_CONF" >"$dir/slurmctld.out" 2>&1 &
pids+=($!)
slurmd -D -f "$SLURM_CONF" -N "$host" >"$dir/slurmd.out" 2>&1 &
pids+=($!)
for _ in $(seq 600); do # of 0.2 s: crowded machines take long
	[ "$(sinfo -h -o %T 2>/dev/null || true)" = idle ] && break
	sleep 0.2
done
if [ "$(sinfo -h -o %T 2>/dev/null || true)" != idle ]; then
	echo "slurm.sh: the node does not come up" >&2
	tail -n 5 "$dir"/*.out >&2
	exit 1
fi
"$@"

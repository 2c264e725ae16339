#!/usr/bin/env bash
# onhost.sh COMMAND...: runs a command on one of the two hosts of namespaces.sh, by its place among the processes. It
# has MPICH believe that processes of two hosts are on two: by TCP, with no memory shared.
host=$((PMI_RANK * 2 / PMI_SIZE))
export UCX_TLS=tcp,self UCX_NET_DEVICES="v$GALLEY_TWO_HOSTS-$host" MPIR_CVAR_NOLOCAL=1
exec ip netns exec "g$GALLEY_TWO_HOSTS-$host" unshare --uts \
	bash -c 'hostname "host$1"; shift; exec "$@"' - "$host" "$@"

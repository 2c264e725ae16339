#!/bin/bash
# Whether programs for eight devices compile, and run on one GPU whose plugin pretends to have eight: devices.sh GALLEY.
# Where the first does not, it is tried in other ways, with what the plugin logs.
galley=${1:-galley}
check() {
	echo "== check devices --mock-devices 8 $*"
	timeout 150 "$galley" check devices --mock-devices 8 --timeout 60s "$@"
	local code=$?
	echo "exit code $code"
	return $code
}
if ! check --mesh dp=8; then
	export TF_CPP_MIN_LOG_LEVEL=0
	check --mesh dp=8 --xla-flag=--xla_gpu_autotune_level=0
	check --mesh dp=8 --xla-flag=--xla_gpu_shard_autotuning=false
	exit 1
fi
check --mesh dp=8 --zero 3 --amp bf16
check --mesh dp=2,tp=4 --sp --amp bf16
check --mesh dp=4,tp=2 --zero 2 --amp bf16 --micro 2
check --mesh dp=2,tp=2,cp=2 --cp ulysses --zero 1 --amp bf16
check --mesh dp=2,cp=4 --amp bf16
check --mesh dp=8 --zero 1 --amp bf16 --vocab 32000 --layers 16 --dim 2048 --heads 16 --ffn 5632 --batch 64 --seq 2048 --steps 11

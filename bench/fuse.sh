#!/usr/bin/env bash
# All that loops must show, in one run: functions in primitive ops (op by op, as loops, by hand, PyTorch's
# eager ops), training steps with and without loops, Burgers' equation, and how long loops take to make.
# PYTHON names a Python that has PyTorch, GALLEY a binary that is built already: then no Go is needed.
#
#   bash bench/fuse.sh                                             five minutes on quiet cores
#   GALLEY=./galley PYTHON=python3 taskset -c 0,1 bash bench/fuse.sh
#   ROUNDS=2 SIZES=512x256 THREADS=1 PARTS=functions,compile bash bench/fuse.sh
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-/usr/bin/python3}
if ! "$python" -c 'import torch' 2>/dev/null; then
  echo "bench/fuse.sh: $python has no PyTorch: set PYTHON to one that has" >&2
  exit 1
fi
galley=${GALLEY:-}
if [ -z "$galley" ]; then
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  galley=$dir/galley
  go build -o "$galley" ./cmd/galley
fi
"$python" bench/fuse.py "$galley" "${ROUNDS:-3}" "${SIZES:-2048x1024,4096x4096}" "${THREADS:-1,2}" \
  "${PARTS:-functions,steps,burgers,compile}"

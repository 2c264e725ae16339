#!/bin/bash
# Where the time of a decoding step goes, kernel by kernel: decode_kernels.sh GALLEY [flags of bench decode].
# Kernels are recorded by kernels.c; a slice of the last step is printed in order, with the gap before each.
here=$(cd "$(dirname "$0")" && pwd)
galley=$1
shift
cupti=${CUPTI:-$(dirname "$(dirname "$(find -L /usr/local/cuda* /opt -name cupti.h 2>/dev/null | head -1)")")}
lib=$(dirname "$(find -L "$cupti" /usr/local/cuda* /opt -name 'libcupti.so' 2>/dev/null | head -1)")
work=$(mktemp -d)
gcc -O2 -shared -fPIC -I"$cupti/include" -I/usr/local/cuda/include "$here/kernels.c" -o "$work/kernels.so" \
	-L"$lib" -Wl,-rpath,"$lib" -lcupti -lpthread || exit 1
shape="--layers ${LAYERS:-8} --dim 4096 --heads 32 --kv-heads 8 --ffn 14336 --vocab ${VOCAB:-128256}"
CUDA_INJECTION64_PATH="$work/kernels.so" KERNELS_OUT="$work/out" \
	timeout 120 "$galley" bench decode --backend xla $shape "$@"
python3 "$here/kernels.py" "$work/out" "${SECONDS_BACK:-0.08}"
python3 "$here/gaps.py" "$work/out" "${SECONDS_BACK:-0.08}" | head -8
python3 - "$work/out" <<'END'
import sys
rows = []
for line in open(sys.argv[1], errors="replace"):
    start, took, name = line.rstrip("\n").split(",", 2)
    rows.append((int(start), int(took), name))
rows.sort()
at = None
for start, took, name in rows[-130:-60]:
    gap = 0 if at is None else start - at
    at = start + took
    print(f"  {gap/1e3:7.1f} gap {took/1e3:8.1f} us  {name[:90]}")
END

#!/bin/bash
# Decoding with Llama 3.1 8B's shape and random weights on one GPU, ours and PyTorch's: decode.sh GALLEY. SKIP=peers
# leaves PyTorch out.
here=$(dirname "$0")
galley=${1:-galley}
shape="--layers 32 --dim 4096 --heads 32 --kv-heads 8 --ffn 14336 --vocab 128256 --bandwidth 4800"
ours() { timeout 170 "$galley" bench decode --backend xla $shape "$@"; }
ours --weights "${WEIGHTS:-bf16,int8,int4}"
[[ $SKIP == *64* ]] || ours --weights bf16 --sequences 64 --prompt 1024
[[ $SKIP == *peers* ]] || timeout 300 python3 "$here/decode_torch.py"

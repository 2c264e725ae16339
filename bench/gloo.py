"""Medians of gloo's all-reduces of float32 between two processes, in microseconds: one JSON object a line."""
import json, os, sys, time
import torch, torch.distributed as dist

rank, port, sizes = int(sys.argv[1]), sys.argv[2], [int(n) for n in sys.argv[3].split(",")]
torch.set_num_threads(1)
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
dist.init_process_group("gloo", rank=rank, world_size=2)
for n in sizes:
    x = torch.zeros(n // 4)
    times = []
    for _ in range(max(10, min(300, (100 << 20) // n))):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(x)
        times.append((time.perf_counter() - start) * 1e6)
    if rank == 0:
        print(json.dumps({"bytes": n, "gloo_us": sorted(times)[len(times) // 2]}), flush=True)

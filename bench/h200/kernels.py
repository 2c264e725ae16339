"""Where the time of a step goes: kernels.py FILE SECONDS [STEP_MS] sums the kernels of the last seconds of a file of kernels.c by name."""
import collections
import sys

path, window = sys.argv[1], float(sys.argv[2]) * 1e9
rows = []
for line in open(path, errors="replace"):
    start, took, name = line.rstrip("\n").split(",", 2)
    rows.append((int(start), int(took), name))
rows.sort()
end = rows[-1][0] + rows[-1][1]
rows = [r for r in rows if r[0] >= end - window]
span = end - rows[0][0]
busy, at = 0, 0
for start, took, _ in rows:
    busy += max(0, start + took - max(start, at))
    at = max(at, start + took)
steps = span / 1e6 / float(sys.argv[3]) if len(sys.argv) > 3 else 1
total = collections.Counter()
count = collections.Counter()
for _, took, name in rows:
    total[name] += took
    count[name] += 1
print(f"{len(rows)} kernels in {span/1e6:.1f} ms, busy {100*busy/span:.1f}%, {steps:.2f} steps, {len(rows)/steps:.0f} kernels a step")
for name, took in total.most_common(70):
    print(f"{took/1e6/steps:9.3f} ms/step {100*took/span:5.1f}%  {count[name]/steps:7.1f} x {took/count[name]/1e3:8.1f} us  {name[:150]}")

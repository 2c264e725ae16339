"""Where the device idles: gaps.py FILE SECONDS lists the longest times between kernels in the last seconds of a file of kernels.c, and how gaps of each size add up."""
import sys

path, window = sys.argv[1], float(sys.argv[2]) * 1e9
rows = []
for line in open(path, errors="replace"):
    start, took, name = line.rstrip("\n").split(",", 2)
    rows.append((int(start), int(took), name))
rows.sort()
end = rows[-1][0] + rows[-1][1]
rows = [r for r in rows if r[0] >= end - window]
gaps, at, last = [], rows[0][0], ""
for start, took, name in rows:
    if start > at:
        gaps.append((start - at, last, name))
    if start + took > at:
        at, last = start + took, name
total = sum(g[0] for g in gaps)
print(f"idle {total/1e6:.2f} ms of {(end-rows[0][0])/1e6:.1f} ms")
for lo, hi in ((0, 2), (2, 5), (5, 20), (20, 200), (200, 1e9)):
    some = [g[0] for g in gaps if lo * 1e3 <= g[0] < hi * 1e3]
    print(f"  {lo}..{hi} us: {len(some)} gaps, {sum(some)/1e6:.2f} ms")
for gap, a, b in sorted(gaps, reverse=True)[:12]:
    print(f"  {gap/1e3:9.1f} us between {a[:60]} and {b[:60]}")

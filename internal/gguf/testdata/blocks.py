"""Writes blocks.json: random blocks of GGUF's kinds and what they mean, decoded here as the format defines
them: python3 blocks.py."""
import json
import random
import struct

random.seed(3)


def half(b):
    return struct.unpack("<e", bytes(b))[0]


def scale():
    return list(struct.pack("<e", random.uniform(-0.01, 0.01)))


def noise(n):
    return [random.randrange(256) for _ in range(n)]


def signed(b):
    return b - 256 if b > 127 else b


def q8_0():
    b = scale() + noise(32)
    return b, [half(b[:2]) * signed(x) for x in b[2:]]


def q4_0():
    b = scale() + noise(16)
    nibbles = [x & 15 for x in b[2:]] + [x >> 4 for x in b[2:]]
    return b, [half(b[:2]) * (x - 8) for x in nibbles]


def fifths(bits):
    return [bits[i // 8] >> (i % 8) & 1 for i in range(32)]


def q4_1():
    b = scale() + scale() + noise(16)
    nibbles = [x & 15 for x in b[4:]] + [x >> 4 for x in b[4:]]
    return b, [half(b[:2]) * x + half(b[2:4]) for x in nibbles]


def q5_0():
    b = scale() + noise(4 + 16)
    nibbles = [x & 15 for x in b[6:]] + [x >> 4 for x in b[6:]]
    return b, [half(b[:2]) * (x + 16 * h - 16) for x, h in zip(nibbles, fifths(b[2:6]))]


def q5_1():
    b = scale() + scale() + noise(4 + 16)
    nibbles = [x & 15 for x in b[8:]] + [x >> 4 for x in b[8:]]
    return b, [half(b[:2]) * (x + 16 * h) + half(b[2:4]) for x, h in zip(nibbles, fifths(b[4:8]))]


def q2_k():
    b = noise(16 + 64) + scale() + scale()
    scales, qs, d, dmin = b[:16], b[16:80], half(b[80:82]), half(b[82:84])
    y = []
    for i in range(256):
        n, r = divmod(i, 128)
        s = scales[i // 16]
        q = qs[32 * n + r % 32] >> (2 * (r // 32)) & 3
        y.append(d * (s & 15) * q - dmin * (s >> 4))
    return b, y


def q3_k():
    b = noise(32 + 64 + 12) + scale()
    hmask, qs, packed, d = b[:32], b[32:96], b[96:108], half(b[108:])
    # 12 bytes: the low halves of scales 0-7 and 8-15, then two bits of each fourth scale in a byte.
    low = [x & 15 for x in packed[:8]] + [x >> 4 for x in packed[:8]]
    scales = [low[j] + ((packed[8 + j % 4] >> (2 * (j // 4)) & 3) << 4) for j in range(16)]
    y = []
    for i in range(256):
        n, r = divmod(i, 128)
        q = qs[32 * n + r % 32] >> (2 * (r // 32)) & 3
        if not hmask[i % 32] >> (i // 32) & 1:
            q -= 4
        y.append(d * (scales[i // 16] - 32) * q)
    return b, y


def q5_k():
    b = scale() + scale() + noise(12 + 32 + 128)
    fours, y = q4_k_of(b[:16] + b[48:])
    d, scales = half(b[0:2]), fours
    return b, [v + 16 * d * scales[i // 32] * (b[16 + i % 32] >> (i // 32) & 1) for i, v in enumerate(y)]


def q4_k():
    b = scale() + scale() + noise(12 + 128)
    return b, q4_k_of(b)[1]


def q4_k_of(b):
    """Returns the scales of a block and what it means."""
    d, dmin, packed, qs = half(b[0:2]), half(b[2:4]), b[4:16], b[16:]
    # 12 bytes: 6-bit scales 0-3, 6-bit mins 0-3, then the low halves of 4-7; their high bits are in the first eight.
    scales = [packed[j] & 63 for j in range(4)] + [(packed[8 + j] & 15) + ((packed[j] >> 6) << 4) for j in range(4)]
    mins = [packed[4 + j] & 63 for j in range(4)] + [(packed[8 + j] >> 4) + ((packed[4 + j] >> 6) << 4) for j in range(4)]
    y = []
    for i in range(256):
        group = i // 32
        byte = qs[i // 64 * 32 + i % 32]
        q = byte >> 4 if group % 2 else byte & 15
        y.append(d * scales[group] * q - dmin * mins[group])
    return scales, y


def q6_k():
    b = noise(128 + 64 + 16) + scale()
    ql, qh, scales, d = b[:128], b[128:192], b[192:208], half(b[208:])
    y = []
    for i in range(256):
        n, r = divmod(i, 128)
        quarter, l = divmod(r, 32)
        low = ql[64 * n + (quarter % 2) * 32 + l]
        low = low >> 4 if quarter >= 2 else low & 15
        high = (qh[32 * n + l] >> (2 * quarter)) & 3
        y.append(d * signed(scales[i // 16]) * (low + 16 * high - 32))
    return b, y


cases = []
for kind, make in ((8, q8_0), (2, q4_0), (12, q4_k), (14, q6_k), (3, q4_1), (6, q5_0), (7, q5_1), (10, q2_k),
                   (11, q3_k), (13, q5_k)):
    parts = [make() for _ in range(2)]
    cases.append({"kind": kind, "bytes": bytes(parts[0][0] + parts[1][0]).hex(), "floats": parts[0][1] + parts[1][1]})
with open("blocks.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")

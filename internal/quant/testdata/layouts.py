"""Writes layouts.json: small matrices of integers as compressed-tensors, GPTQ and AWQ store them, and the floats
that they mean. Each is packed here as its format is defined, with nothing but Python: python3 layouts.py."""
import json
import random
import struct

random.seed(7)


def half(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def signed(word):
    return word - (1 << 32) if word >= 1 << 31 else word


def words(values, bits, order=None):
    """values in words of 32 bits; the value of place i of a word is the one of index order[i]."""
    per = 32 // bits
    values = values + [0] * (-len(values) % per)
    order = order or list(range(per))
    return [signed(sum(values[at + order[i]] << (bits * i) for i in range(per))) for at in range(0, len(values), per)]


def flat(rows):
    return [x for row in rows for x in row]


def columns(rows):
    return [list(c) for c in zip(*rows)]


def case(method, bits, group, out, width, act_order=False, symmetric=False, v2=False):
    size = group if group > 0 else width
    groups = width // size
    top = (1 << bits) - 1
    q = [[random.randint(0, top) for _ in range(width)] for _ in range(out)]
    z = [[(top + 1) // 2 if symmetric else random.randint(1, top) for _ in range(groups)] for _ in range(out)]
    s = [[half(random.uniform(0.001, 0.02)) for _ in range(groups)] for _ in range(out)]
    index = [k // size for k in range(width)]
    if act_order:
        random.shuffle(index)
    floats = [[(q[j][k] - z[j][index[k]]) * s[j][index[k]] for k in range(width)] for j in range(out)]
    tensors = {}

    def put(name, dtype, shape, data):
        tensors["layer." + name] = {"dtype": dtype, "shape": shape, "data": data}

    if method == "compressed-tensors":
        config = {"quant_method": method, "format": "pack-quantized", "ignore": ["lm_head"],
                  "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": None,
                                                "weights": {"num_bits": bits, "type": "int", "symmetric": symmetric,
                                                            "strategy": "group" if group > 0 else "channel",
                                                            "group_size": group if group > 0 else None}}}}
        packed = [words(row, bits) for row in q]
        put("weight_packed", "i32", [out, len(packed[0])], flat(packed))
        put("weight_scale", "f16", [out, groups], flat(s))
        put("weight_shape", "i64", [2], [out, width])
        if not symmetric:
            zeros = columns([words(column, bits) for column in columns(z)])
            put("weight_zero_point", "i32", [len(zeros), groups], flat(zeros))
        if act_order:
            put("weight_g_idx", "i32", [width], index)
    elif method == "gptq":
        config = {"quant_method": method, "bits": bits, "group_size": group, "desc_act": act_order, "sym": symmetric,
                  "checkpoint_format": "gptq_v2" if v2 else "gptq"}
        packed = columns([words(row, bits) for row in q])
        put("qweight", "i32", [len(packed), out], flat(packed))
        less = 0 if v2 else 1
        zeros = [words([x - less for x in row], bits) for row in columns(z)]
        put("qzeros", "i32", [groups, len(zeros[0])], flat(zeros))
        put("scales", "f16", [groups, out], flat(columns(s)))
        put("g_idx", "i32", [width], index)
    else:
        config = {"quant_method": method, "bits": bits, "group_size": group, "zero_point": True, "version": "gemm"}
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        packed = [words(row, bits, order) for row in columns(q)]
        put("qweight", "i32", [width, len(packed[0])], flat(packed))
        zeros = [words(row, bits, order) for row in columns(z)]
        put("qzeros", "i32", [groups, len(zeros[0])], flat(zeros))
        put("scales", "f16", [groups, out], flat(columns(s)))
    return {"config": config, "out": out, "in": width, "tensors": tensors, "floats": flat(floats)}


cases = [
    case("compressed-tensors", 4, 32, 6, 64, symmetric=True), case("compressed-tensors", 8, 64, 5, 128, symmetric=True),
    case("compressed-tensors", 4, 32, 11, 64), case("compressed-tensors", 4, -1, 3, 160, symmetric=True),
    case("compressed-tensors", 4, 32, 4, 96, act_order=True),
    case("gptq", 4, 32, 8, 64), case("gptq", 4, 64, 16, 128, act_order=True), case("gptq", 8, 32, 4, 64, v2=True),
    case("gptq", 4, 128, 8, 256, symmetric=True), case("gptq", 4, -1, 8, 96),
    case("awq", 4, 32, 16, 64), case("awq", 4, 128, 8, 256),
]
with open("layouts.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")

#!/usr/bin/env python3
"""Makes measured tables of matrix products, one file a card and source, from what others or we have measured.

    product_tables.py OUT kernels.jsonl --device h200-sxm-141gb    what experiments/corpus/measured/kernels.py prints
    product_tables.py OUT gemm.json                                published efficiencies: a list of {source, verified, device,
                                                                   op, shape, tflops, efficiency and peak_tflops}

Says for every kind of row that it leaves out how many there were and why.
"""
import argparse
import collections
import json
import pathlib
import sys

# card as published -> device preset or, where there is none, a name of its own; preset whose law is laid beside it
CARDS = {
    "A100-PCIe-80GB": ("a100-pcie-80gb", "a100-sxm4-80gb"),
    "B200-SXM": ("b200-sxm-180gb", "b200-sxm-180gb"),
    "H800-SXM5": ("h800-sxm5", "h100-sxm5-80gb"),
    "NVIDIA A100 SXM": ("a100-sxm4-80gb", "a100-sxm4-80gb"),
    "NVIDIA A100 PCIe": ("a100-pcie-80gb", "a100-sxm4-80gb"),
    "NVIDIA H100 SXM": ("h100-sxm5-80gb", "h100-sxm5-80gb"),
    "NVIDIA GH200 SXM": ("gh200", "h100-sxm5-80gb"),
    "NVIDIA H200 SXM": ("h200-sxm-141gb", "h200-sxm-141gb"),
    "NVIDIA B200 SXM": ("b200-sxm-180gb", "b200-sxm-180gb"),
    "NVIDIA B300 SXM": ("b300-sxm", "b300-sxm"),
    "NVIDIA B300 SXM6 AC": ("b300-sxm", "b300-sxm"),
    "NVIDIA GB200 SXM": ("gb200", "gb200"),
    "NVIDIA GB300": ("gb300", "gb300"),
    "Intel Gaudi 2": ("gaudi2-hl225", "gaudi2-hl225"),
    "Intel Gaudi 3": ("gaudi3-hl325-oam", "gaudi3-hl325-oam"),
}
# beginning of a source -> end of the file's name, what its times are
SOURCES = {
    "MooreThreads/SimuMax": ("simumax", "kernels of Megatron-Core's layers with Transformer Engine, one shape after the other"),
    "deepseek-ai/DeepGEMM": ("deepgemm", "DeepGEMM's own kernels of products with scales by blocks"),
    "facebookexperimental/triton": ("tritonbench", "cuBLAS as PyTorch calls it, one shape after the other"),
    "NVIDIA/TransformerEngine": ("transformer-engine", "cuBLAS as Transformer Engine calls it, one shape after the other"),
    "stas00/ml-engineering": ("best", "fastest of 100 iterations of the best shape found; its layout is not stated and read as forward"),
}
TYPES = {"bf16": "bf16", "fp16": "fp16", "fp8 e4m3": "fp8"}
BLOCK_SCALED = "deepseek-ai/DeepGEMM"  # whose fp8 has a scale for 128 elements, and for 128 x 128 of the other operand
LAYOUTS = {"TN": (False, True), "NN": (False, False), "NT": (True, False)}  # of cuBLAS -> (trans_a, trans_b) of rows
DIGITS = 5
ISSUE, HOST_BOUND = "host: linear", 2  # host time of a product; shorter than so many of it, a call is left out


class Left(Exception):
    """Why a row is left out."""


def matmul(m, n, k, trans_a=False, trans_b=False, total=None):
    return "matmul", {"m": m, "n": n, "k": k, "trans_a": trans_a, "trans_b": trans_b, "bias": False, "accumulate": total is not None,
                      "total": total or "fp32", "sums": False}


def linear(kind, tokens, out, inner):
    """One of the three products of a linear layer [tokens, inner] -> [tokens, out]."""
    return {"forward": matmul(tokens, out, inner, trans_b=True),
            "input gradient": matmul(tokens, inner, out),
            "weight gradient": matmul(out, inner, tokens, trans_a=True)}[kind]


def grouped(kind, groups, m, n, k, total=None):
    head = {"groups": groups, "experts": groups, "m": m}
    if kind == "bwd_grad_w":
        return "grouped_weight_grad", {**head, "n": n, "k": k, "ragged": False, "accumulate": total is not None, "total": total or "fp32"}
    rows, cols = (n, k) if kind == "fwd" else (k, n)
    return "grouped_matmul", {**head, "n": rows, "k": cols, "trans_b": kind == "fwd", "ragged": False}


def flops(kind, op):
    return 2 * op.get("groups", 1) * op["m"] * op["n"] * op["k"]


def published_type(row):
    dtype = TYPES[row["dtype"]]
    return "fp8_block" if dtype == "fp8" and row["source"].startswith(BLOCK_SCALED) else dtype


def published_product(row):
    """(kind of operation, its fields, compute type) of a published row."""
    s, what = row["shape"], row["op"]
    if row["device"] not in CARDS:
        raise Left("of a card without a preset or not stated")
    if what == "matmul" and "layout" in s:
        if s["b"] != 1:
            raise Left("batched products of unknown operands")
        return *matmul(s["m"], s["n"], s["k"], *LAYOUTS[s["layout"]], s["out_dtype"] if s["accumulate"] == "True" else None), "bf16"
    if what in ("matmul", "fp8 gemm"):
        return *matmul(s["m"], s["n"], s["k"], trans_b=True), published_type(row)
    if what == "group_matmul":
        return *grouped(s["stage"], s["ng"], s["M"], s["N"], s["K"], s["main_grad_dtype"] if s["accumulate"] == "True" else None), s["dtype"]
    if what.startswith("fp8 grouped gemm"):
        return *grouped("fwd", s["groups"], s["m_per_group"], s["n"], s["k"]), published_type(row)
    raise Left("attention" if what.startswith("sdp") else "several products at once")


def published(rows):
    tables, left = {}, collections.Counter()
    for row in rows:
        try:
            kind, op, dtype = published_product(row)
        except Left as reason:
            left[(row["op"], str(reason))] += 1
            continue
        end, how = next(v for k, v in SOURCES.items() if row["source"].startswith(k))
        device, law = CARDS[row["device"]]
        name = f"{device}-{end}"
        facts = {"card": row["device"], "source": row["source"], "times": how, "law": law}
        table = tables.setdefault(name, head(device, "", facts))
        rate = row["efficiency"] * row["peak_tflops"] if "efficiency" in row else row["tflops"]  # the one with more digits
        table["entries"].setdefault(dtype, {}).setdefault(kind, []).append({**op, "seconds": rounded(flops(kind, op) / rate * 1e-12)})
    return tables, left


def own(lines, device):
    facts, tables, left = lines[0], {}, collections.Counter()
    software = f"PyTorch {facts['torch']}, CUDA {facts['cuda']}"
    table = head(device, facts["date"], {"card": facts["card"], "source": f"own measurement, {software}", "law": device,
                                         "times": "seconds: short bursts; sustained_s: more than half a second without a pause"})
    issue = next((row["seconds"] for row in lines if row.get("op") == ISSUE), 0)
    for row in lines[1:]:
        if row["op"] != "product":
            left[(row["op"], "no product")] += 1
            continue
        if row["steady_s"] < HOST_BOUND * issue:
            left[(row["op"], "so short that the host that issued it may have been timed")] += 1
            continue
        kind, op = linear(row["kind"], *(row["shape"][d] for d in "mnk"))
        table["entries"].setdefault(row["type"], {}).setdefault(kind, []).append(
            {**op, "seconds": row["seconds"], "sustained_s": row["steady_s"]})
    tables[device] = table
    return tables, left


def rounded(seconds):
    return float(f"{seconds:.{DIGITS}g}")


def head(device, date, facts):
    return {"schema_version": 1, "device": device, "date": date, "host": "", "compiler": "", "notes": "matrix products only; made by product_tables.py",
            "launch_s": 0, "slowdown": [1], "runtime_bytes": 0, "facts": facts, "figures": [], "copies": [], "entries": {}, "comm": []}


def text(table):
    """One sample a line."""
    out = json.dumps({k: v for k, v in table.items() if k != "entries"}, indent=2)
    kinds = [f'    {json.dumps(dtype)}: {{\n' + ",\n".join(
        f"      {json.dumps(kind)}: [\n        " + ",\n        ".join(json.dumps(s) for s in samples) + "\n      ]"
        for kind, samples in sorted(of_type.items())) + "\n    }" for dtype, of_type in sorted(table["entries"].items())]
    return out[:-2] + ',\n  "entries": {\n' + ",\n".join(kinds) + "\n  }\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="folder to write to")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--device", help="device preset that kernels.jsonl was measured on")
    o = parser.parse_args()
    content = o.file.read_text(encoding="utf-8")
    if o.file.suffix == ".jsonl":
        if not o.device:
            parser.error("kernels.jsonl names no device preset: give --device")
        tables, left = own([json.loads(line) for line in content.splitlines()], o.device)
    else:
        tables, left = published(json.loads(content))
    o.out.mkdir(parents=True, exist_ok=True)
    for name, table in sorted(tables.items()):
        (o.out / f"{name}.json").write_text(text(table), encoding="utf-8")
        print(f"{name}: {sum(len(s) for kinds in table['entries'].values() for s in kinds.values())} products")
    for (what, why), n in sorted(left.items()):
        print(f"left out: {n} x {what}: {why}", file=sys.stderr)


if __name__ == "__main__":
    main()

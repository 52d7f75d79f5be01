#!/usr/bin/env python3
"""The ring of ../network_bars.cpp as input of astra-sim: astra_sim_ring.py RANKS FOLDER writes it and prints astra-sim's command line.

$ASTRA_SIM is its checkout, built with the analytical network that knows congestion (build/astra_analytical, target congestion_aware)
and with the Python classes of its traces (protoc --python_out). Exits with status 77 if they are missing.
"""
import json
import os
import pathlib
import sys

import peer

PROGRAM = "AstraSim_Analytical_Congestion_Aware"
RING_BYTES, GIB_PER_S = 2**30, 25e9 / 2**30  # kRingBytes, kRingBandwidth of ../flows.hpp; its "GB" is 2**30
# One chunk and no time for additions, as in Tandem's case; 1 ns where its event queue refuses 0.
SYSTEM = {"scheduling-policy": "LIFO", "endpoint-delay": 1, "active-chunks-per-dimension": 1, "preferred-dataset-splits": 1,
          "all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"], "reduce-scatter-implementation": ["ring"],
          "all-to-all-implementation": ["ring"], "collective-optimization": "localBWAware", "local-mem-bw": 10**9, "boost-mode": 0}


def checkout():
    root = os.environ.get("ASTRA_SIM", "")
    programs = sorted(pathlib.Path(root).rglob(PROGRAM)) if root else []
    programs = [p for p in programs if p.is_file()]
    if not programs:
        peer.skip("astra-sim", f"ASTRA_SIM is no checkout with a built {PROGRAM}")
    return pathlib.Path(root), programs[0]


def traces(root):
    sys.path.insert(0, str(root / "extern/graph_frontend/chakra/schema/protobuf"))
    try:
        import et_def_pb2
        from google.protobuf.internal import encoder
    except ImportError as e:
        peer.skip("astra-sim", str(e))
    return et_def_pb2, encoder


def write_trace(path, et, encoder, rank):
    """Writes a trace with one all-reduce: protobuf messages, each preceded by its length."""
    node = et.Node(id=rank, name="all_reduce", type=et.COMM_COLL_NODE)
    node.attr.append(et.AttributeProto(name="is_cpu_op", bool_val=False))
    node.attr.append(et.AttributeProto(name="comm_type", int64_val=et.ALL_REDUCE))
    node.attr.append(et.AttributeProto(name="comm_size", int64_val=RING_BYTES))
    with open(path, "wb") as out:
        for message in (et.GlobalMetadata(version="0.0.4"), node):
            text = message.SerializeToString()
            out.write(encoder._VarintBytes(len(text)) + text)  # pylint: disable=protected-access


def main():
    ranks, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    root, program = checkout()
    et, encoder = traces(root)
    for rank in range(ranks):
        write_trace(folder / f"ring.{rank}.et", et, encoder, rank)
    (folder / "system.json").write_text(json.dumps(SYSTEM), encoding="utf-8")
    (folder / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}', encoding="utf-8")
    (folder / "network.yml").write_text(f"topology: [ Ring ]\nnpus_count: [ {ranks} ]\nbandwidth: [ {GIB_PER_S!r} ]\nlatency: [ 1.0 ]\n",
                                        encoding="utf-8")
    print(json.dumps([str(program), f"--workload-configuration={folder}/ring", f"--system-configuration={folder}/system.json",
                      f"--remote-memory-configuration={folder}/memory.json", f"--network-configuration={folder}/network.yml"]))


if __name__ == "__main__":
    main()

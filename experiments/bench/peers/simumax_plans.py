#!/usr/bin/env python3
"""SimuMax on the plans of published.jsonl for B200: simumax_plans.py RECORDS, SimuMax's checkout in PYTHONPATH.

The strategy is the plan's own numbers and the settings of SimuMax's own release run; model and system are its
configs/models/*.json (layers cut as published) and configs/system/b200_bf16_ceperm.json, untouched. One evaluation is run_estimate
and the cost of an iteration, no memory analysis.
"""
import contextlib
import io
import os
import re
import sys

import peer

try:
    from simumax.core.config import ModelConfig, StrategyConfig, SystemConfig
    from simumax.core.perf_llm import PerfLLM
    from simumax.utils import get_simu_model_config, get_simu_strategy_config, get_simu_system_config
except ImportError as error:
    peer.skip("SimuMax", error)

SECONDS = {"ms": 1e-3, "s": 1, "us": 1e-6}


def strategy(parallel, training):
    s = StrategyConfig.init_from_config_file(get_simu_strategy_config("tp1_pp2_dp4_mbs1"))
    s.world_size = parallel["tensor"] * parallel["pipeline"] * parallel["data"]
    s.tp_size, s.pp_size = parallel["tensor"], parallel["pipeline"]
    s.seq_len, s.micro_batch_size = training["seq_length"], training["micro_batch_size"]
    s.micro_batch_num = training["global_batch_size"] // (training["micro_batch_size"] * parallel["data"])
    s.zero_state, s.enable_recompute = parallel["zero_stage"], training["recompute"] != "none"
    s.enable_sequence_parallel = parallel["tensor"] > 1
    s.cross_entropy_loss_fusion, s.te_version = True, "2.11.0"
    s.overlap_grad_reduce = parallel["overlap_grad_reduce"]
    return s


def model(record):
    name = "llama3-405b_padding_128" if "405b" in record["id"] else "llama3-70b"
    config = ModelConfig.init_from_config_file(get_simu_model_config(name))
    config.layer_num = record["plan"]["model"]["num_layers"]
    return config


def estimate(record, system):
    perf = PerfLLM()
    perf.configure(strategy_config=strategy(record["plan"]["parallel"], record["plan"]["training"]), model_config=model(record),
                   system_config=system)
    perf.run_estimate()
    number, unit = re.match(r"([\d.]+)\s*(\w+)", perf.analysis_cost().data["duration_time_per_iter"]).groups()
    return float(number) * SECONDS[unit]


def main():
    system = SystemConfig.init_from_config_file(get_simu_system_config("b200_bf16_ceperm"))
    for record in peer.records(sys.argv[1], "simumax-b200-"):
        with contextlib.redirect_stdout(io.StringIO()):  # it reports its progress there
            found = peer.each(lambda: estimate(record, system), 5, 3)
        peer.say(record, *found)


if __name__ == "__main__":
    main()

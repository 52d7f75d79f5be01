#!/usr/bin/env python3
"""calculon's closed form on the plans of published.jsonl for A100: calculon_plans.py RECORDS, calculon in PYTHONPATH.

The application and the execution are the plan's own numbers, the system is calculon's systems/a100_80g.json, untouched. One
evaluation is what calculon's own `llm` command does with them: compile and run.
"""
import logging
import os
import sys

import peer

try:
    import calculon
    from calculon.llm import Llm, System
except ImportError as error:
    peer.skip("calculon", error)


def application(model, training):
    return {"hidden": model["hidden_size"], "feedforward": model["ffn_hidden_size"], "seq_size": training["seq_length"],
            "attn_heads": model["num_attention_heads"], "attn_size": model["hidden_size"] // model["num_attention_heads"],
            "num_blocks": model["num_layers"]}


def execution(parallel, training):
    return {"num_procs": parallel["tensor"] * parallel["pipeline"] * parallel["data"],
            "tensor_par": parallel["tensor"], "pipeline_par": parallel["pipeline"], "data_par": parallel["data"],
            "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 1,
            "batch_size": training["global_batch_size"], "microbatch_size": training["micro_batch_size"],
            "datatype": "float16", "fused_activation": True, "attention_type": "multihead",
            "activation_recompute": {"full": "full", "none": "none"}[training["recompute"]],
            "pipeline_interleaving": parallel.get("virtual_pipeline", 1), "optimizer_sharding": parallel["zero_stage"] > 0,
            "tensor_par_comm_type": "ar", "tensor_par_overlap": "none", "seq_par_ag_redo": False, "data_par_overlap": False,
            "weight_offload": False, "activations_offload": False, "optimizer_offload": False, "training": True}


def main():
    path = os.path.join(os.path.dirname(calculon.__file__), "..", "systems", "a100_80g.json")
    system = System(calculon.io.read_json_file(path))
    logger = logging.getLogger("calculon")
    for record in peer.records(sys.argv[1], "megatron-sc21-"):
        plan = record["plan"]

        def evaluate():
            model = Llm(Llm.Application(application(plan["model"], plan["training"])), logger)
            model.compile(system, Llm.Execution.from_json(execution(plan["parallel"], plan["training"])))
            model.run(system)
            return model.get_total_time()

        try:
            peer.say(record, *peer.each(evaluate))
        except Llm.Error as error:
            print(f"calculon: {record['id']}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What explain tells of a plan and of every key of its prediction."""
import json
import re

import tandem
from tandem import SMALL, SOURCE, WithFolder, changed, run, tandem_json


class Explain(WithFolder):
    def test_every_default_and_the_split_are_told(self):
        result = tandem_json("explain", self.folder.plan(SMALL))
        self.assertEqual(result["layers_per_stage"], [1, 1])
        self.assertEqual(result["plan"]["training"]["optimizer"], "adamw")
        self.assertEqual(result["world_size"], 8)
        h, f, v, s = 24, 40, 256, 16
        layer = 4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h
        self.assertEqual(result["parameters"]["per_layer"], layer)
        self.assertEqual(result["parameters"]["total"], 2 * layer + v * h + s * h + 2 * h)
        text = run("explain", self.folder.plan(SMALL))[1]
        self.assertIn("layers per stage", text)

    def test_data_ranks_and_devices_left_out_are_told_with_what_they_follow_from(self):
        for field, plan, of in (("parallel.data", changed(SMALL, **{"parallel.data": None}), "cluster.devices 8 / (tensor 2 x pipeline 2 x context 1) = 2"),
                                ("cluster.devices", changed(SMALL, **{"cluster.devices": None}), "tensor 2 x pipeline 2 x context 1 x data 2 = 8"),
                                ("parallel.data", changed(SMALL, **{"parallel.data": "auto", "cluster.override": {"ranks_per_device": 2}}),
                                 "cluster.devices 8 x ranks_per_device 2 / (tensor 2 x pipeline 2 x context 1) = 4")):
            file = self.folder.plan(plan)
            told = tandem_json("explain", file)
            self.assertEqual(told["derived_fields"], [{"field": field, "from": of}])
            part, name = field.split(".")
            self.assertEqual(told["plan"][part][name], int(of.split(" = ")[1]))
            self.assertIn(of + ": the plan leaves it out", run("explain", file)[1])
            if "override" not in plan["cluster"]:  # simulated only
                self.assertEqual(tandem_json("explain", file, "plan." + field)["filled"], "left out, so derived: " + of)
        file = self.folder.plan(SMALL)
        self.assertEqual(tandem_json("explain", file)["derived_fields"], [])
        self.assertEqual(tandem_json("explain", file, "plan.parallel.data")["filled"], f"from {file}")

    def test_a_field_comes_from_the_file_a_preset_the_stack_or_the_default(self):
        file = self.folder.plan(changed(SMALL, **{"model": {"preset": "llama3-8b", "num_layers": 4}, "stack": "megatron-core@2024-07"}))
        def filled(field, *more):
            return tandem_json("explain", file, "plan." + field, *more)["filled"]
        for field in ("model.num_layers", "training.precision", "stack.as_of"):
            self.assertEqual(filled(field), f"from {file}")
        self.assertEqual(filled("model.hidden_size"), f"from the preset llama3-8b, which {file} names")
        self.assertIn(f"neither {file} nor its preset llama3-8b gives it", filled("model.qk_norm"))
        self.assertRegex(filled("parallel.zero_stage"), f"^the default.*: {file} does not give it")
        self.assertTrue(filled("training.fusion").startswith("from the rule of stack megatron-core as of 2024-07"), filled("training.fusion"))
        self.assertEqual(filled("stack.as_of", "--stack", "megatron-core@2023-01"), "from --stack")
        self.assertTrue(filled("training").startswith(f"fields from {file}, its presets"), filled("training"))
        for field in ("training.documents", "model.moe.z_loss"):  # printed only where they are set
            self.assertTrue(filled(field).startswith("the default"), filled(field))

    def test_a_rule_of_the_stack_that_does_not_hold_is_told_with_what_it_would_change(self):
        plan = changed(SMALL, **{"cluster": {"preset": "dgx-b200", "devices": 8}, "training.precision": "bf16", "stack": "megatron-core",
                                 "parallel.sequence_parallel": True})
        file, key = self.folder.plan(plan), "plan.parallel.overlap_tensor_sum"
        told = tandem_json("explain", file, key)["filled"]
        self.assertIn('a rule of stack megatron-core for true does not hold, as device.generation is "blackwell", not "volta", ', told)
        self.assertNotIn("parallel.tensor is", told)  # these conditions hold
        asked = self.folder.plan(changed(plan, **{"parallel.overlap_tensor_sum": True}), "asked.json")
        steps = [tandem_json("simulate", path)["step_time_s"] for path in (file, asked)]
        change = re.search(r"; with true a step takes [^,]+, ([+-][\d.]+) %", told)
        self.assertAlmostEqual(float(change.group(1)), 100 * (steps[1] / steps[0] - 1), delta=0.051)
        self.assertEqual(tandem_json("explain", asked, key)["filled"], f"from {asked}")

    def test_one_bucket_of_all_gradients_is_told_in_words_and_no_multiple_for_more_ranks_is(self):
        plan = changed(SMALL, **{"cluster": {"preset": "dgx-h100", "devices": 8}, "training.precision": "bf16",
                                 "stack": "megatron-core"})
        file, key = self.folder.plan(plan), "plan.parallel.bucket_bytes"
        self.assertIn(f"{key} = 1125899906842624 (all gradients at once)\n", run("explain", file, key)[1])
        self.assertRegex(run("explain", file)[1], r"parallel\.bucket_bytes +1125899906842624 \(all gradients at once\)")
        overlaps = changed(plan, **{"parallel.overlap_grad_reduce": True, "training.dtypes": {"gradient_reduce": "fp32"}})
        told = tandem_json("explain", self.folder.plan(overlaps), key)["filled"]
        self.assertTrue(told.startswith("the default"), told)
        self.assertIn("for all gradients at once does not hold, as parallel.overlap_grad_reduce is true, not false; "
                      "with all gradients at once a step takes", told)
        self.assertIn("for 80000000 does not hold, as training.dtypes.gradient_reduce", told)
        self.assertEqual(told.count("does not hold"), 2, told)  # multiples of the ranks begin at 41 of them

    def test_fields_and_values_are_read_by_older_names_and_printed_by_the_present_ones(self):
        older = changed(SMALL, **{"parallel.scatter_p2p": True, "parallel.unit_copies": "flat", "training.recompute_products": True,
                                  "model.qk_norm": "row", "parallel.pipeline": 1, "parallel.data": 4, "parallel.zero_stage": 3})
        present = changed(older, **{"parallel.scatter_p2p": None, "parallel.unit_copies": None, "training.recompute_products": None,
                                    "parallel.scatter_gather_tensors_in_pipeline": True, "parallel.fsdp_copies": "flat",
                                    "training.recompute_every_second_matmul": True, "model.qk_norm": "full"})
        plans = [tandem_json("explain", self.folder.plan(plan))["plan"] for plan in (older, present)]
        self.assertEqual(plans[0], plans[1])
        self.assertEqual((plans[0]["parallel"]["fsdp_copies"], plans[0]["model"]["qk_norm"]), ("flat", "full"))
        self.assertEqual(tandem_json("explain", self.folder.plan(changed(SMALL, **{"model.qk_norm": "turned"})))["plan"]["model"]["qk_norm"], "l2")
        both = changed(present, **{"parallel.unit_copies": "flat"})
        code, _, err = run("explain", self.folder.plan(both))
        self.assertEqual(code, 3)
        self.assertIn('parallel.unit_copies = "flat": is an older name of fsdp_copies, which is given, too', err)

    def test_a_plan_is_told_in_a_screen_with_the_values_of_its_stacks_defaults_and_all_on_request(self):
        file = self.folder.plan(changed(SMALL, **{"cluster": {"preset": "dgx-a100-80gb", "devices": 8}, "stack": "megatron-core@2021-04"}))
        short, whole = run("explain", file)[1], run("explain", file, "--all")[1]
        self.assertLess(len(short.splitlines()), 30)
        plan = tandem_json("explain", file)["plan"]
        for field in ("training.fusion", "parallel.overlap_p2p"):
            part, name = field.split(".")
            self.assertRegex(short, rf"(?m)^  {field} +{re.escape(json.dumps(plan[part][name]))}$")
            self.assertNotRegex(short, rf"{field}.*: ")
            self.assertRegex(whole, rf"(?m)^  {field}: .*Megatron")
        self.assertIn('"min_learning_rate"', whole)
        self.assertNotIn('"min_learning_rate"', short)
        self.assertEqual(run("explain", file, "step_time_s", "--all")[0], 2)

    def test_the_printed_plan_is_a_plan_again(self):
        plan = tandem_json("explain", self.folder.plan(SMALL))["plan"]
        again = tandem_json("explain", self.folder.plan(plan, "again.json"))["plan"]
        self.assertEqual(plan, again)


def keys_of(value, key=""):
    """Every key of a result as `explain` spells it, with a value of it."""
    found = [(key, value)] if key else []
    if isinstance(value, dict):
        for name, inner in value.items():
            found += keys_of(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list) and value and (isinstance(value[0], dict) or isinstance(value[0], str) and not key.startswith("plan.")):
        found += keys_of(value[0], key + "[]")
    return found


class ExplainKey(WithFolder):
    A100 = changed(SMALL, **{"cluster": {"preset": "dgx-a100-80gb", "devices": 8}, "training.precision": "bf16",
                             "training.recompute": "full"})

    def test_every_key_of_a_prediction_has_an_explanation_with_its_own_value(self):
        for plan, with_plan in ((SMALL, True), (self.A100, False)):
            file = self.folder.plan(plan)
            for key, value in keys_of(tandem_json("simulate", file)):
                if key.startswith("plan") and not with_plan:
                    continue
                told = tandem_json("explain", file, key)
                self.assertEqual(told["key"], key)
                for part in ("formula", "filled", "range"):
                    self.assertTrue(told[part], (key, part))
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    self.assertEqual(float(told["text"].split()[0]), value, key)
                self.assertEqual(told["value"], value, key)  # a number is a number

    def test_active_parameters_of_a_mixture_are_told_wherever_its_parameters_are(self):
        file = self.folder.plan(changed(SMALL, **{"model.family": "llama", "model.moe": {"num_experts": 4, "experts_per_token": 1},
                                                  "cluster": {"preset": "dgx-h100", "devices": 8}, "training.precision": "bf16"}))
        told = tandem_json("explain", file)
        idle = 2 * 3 * 3 * 24 * 40  # two layers, three of four experts, three matrices
        active = told["parameters"]["total"] - idle
        self.assertEqual(told["active_parameters"], active)
        self.assertEqual(tandem_json("simulate", file)["active_parameters"], active)
        one = tandem_json("explain", file, "active_parameters")
        self.assertEqual(one["value"], active)
        self.assertIn(f"1 of 4 routed experts; {told['parameters']['total']:,} parameters", one["filled"])
        for command in (("explain", file), ("simulate", file), ("plan", file, "--tokens", "1e9")):
            self.assertIn(f"{active:,} active of a token, {active - told['parameters']['embedding']:,} without the embedding", run(*command)[1])
        self.assertNotIn("active_parameters", tandem_json("explain", self.folder.plan(SMALL)))

    def test_the_values_filled_in_give_the_value(self):
        file = self.folder.plan(self.A100)
        result = tandem_json("simulate", file)

        def numbers(key):
            filled = tandem_json("explain", file, key)["filled"]
            return [float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\.?\d*", filled)]

        batch, length, seconds = numbers("tokens_per_s")
        self.assertEqual((batch, length), (8, 16))
        self.assertAlmostEqual(seconds, result["step_time_s"], places=6)
        tera, devices, seconds = numbers("hardware_tflops_per_device")
        self.assertEqual(devices, 8)
        shares = [numbers("time_breakdown_s." + name)[0] for name in result["time_breakdown_s"]]
        self.assertAlmostEqual(sum(shares), result["step_time_s"], places=5)
        self.assertEqual(numbers("ranks"), [2, 2, 2, 1])

    def test_the_parts_of_a_step_add_up_to_it_to_the_picosecond(self):
        for plan in (SMALL, self.A100, changed(self.A100, **{"training.flash_attention": True, "parallel.optimizer_sync": "post_validated",
                                                             "parallel.schedule": "zb-h2", "training.recompute": "none"})):
            file = self.folder.plan(plan)
            result, told = tandem_json("simulate", file), tandem_json("explain", file, "step_time_s")
            parts = {p["part"]: round(p["seconds"] * 1e12) for p in told["parts"]}
            self.assertEqual(sum(parts.values()), round(result["step_time_s"] * 1e12))
            shares = {name: round(seconds * 1e12) for name, seconds in result["time_breakdown_s"].items()}
            self.assertEqual(sum(parts.get(p, 0) for p in ("matrix products", "attention", "other kernels")), shares["compute"])
            self.assertEqual(parts.get("exposed: tensor ranks", 0), shares["tensor_comm"])
            self.assertEqual(list(parts.values()), sorted(parts.values(), reverse=True))
            lines = [line.split() for line in run("explain", file, "step_time_s")[1].splitlines() if line.startswith("  part")]
            *rows, total = [round(float(line[-4]) * 1e12) for line in lines]
            self.assertEqual((sum(rows), total), (round(result["step_time_s"] * 1e12),) * 2)
        self.assertEqual(tandem_json("explain", file, "mfu")["parts"], [])

    def test_facts_are_those_of_the_attention_kernel_that_runs(self):
        h100 = changed(SMALL, **{"stack": "tandem", "cluster": {"preset": "dgx-h100", "devices": 8}, "model.head_dim": 16,
                                 "training.precision": "bf16", "training.flash_attention": True, "training.dropout": {"attention": 0}})
        for changes, kernel in (({}, "tuned"), ({"model.position_embedding": "alibi"}, "own")):
            facts = tandem_json("explain", self.folder.plan(changed(h100, **changes)), "step_time_s")["facts"]
            fits = {f["field"].split(".")[0] for f in facts if "_attention." in f["field"]}
            self.assertEqual(fits - {"deterministic_dropout_attention"}, {kernel + "_attention"})

    def test_facts_come_with_their_source_and_a_role_can_be_asked_for(self):
        file = self.folder.plan(self.A100)
        facts = {(f["part"], f["field"]): f for f in tandem_json("explain", file, "step_time_s")["facts"]}
        self.assertIn("verified: ", facts["device", "memory_bytes_per_s"]["origin"])
        self.assertIn("fitted on", facts["calibration", "memory_share"]["origin"])
        told = tandem_json("explain", file, "mfu")
        only = told["facts"]
        self.assertIn("stas_acc", told["sources"])
        self.assertGreater(len(told["sources"]["stas_acc"]), 10)
        self.assertEqual([f["field"] for f in only], ["peak_flops_per_s"])
        roles = tandem_json("simulate", file)["roles"]
        told = tandem_json("explain", file, f"roles[{len(roles) - 1}].first_rank")
        self.assertEqual(told["value"], roles[-1]["first_rank"])
        text = run("explain", file, "peak_memory_bytes")[1]
        for word in ("formula", "here", "range", "runtime_bytes"):
            self.assertIn(word, text)

    def test_any_list_can_be_asked_by_number(self):
        h100 = {"model": {"preset": "llama3-8b", "num_layers": 4}, "parallel": {"tensor": 2, "data": 4}, "cluster": {"preset": "dgx-h100", "devices": 8},
                "training": {"seq_length": 8192, "micro_batch_size": 1, "global_batch_size": 128}}
        file = self.folder.plan(h100)
        result = tandem_json("simulate", file)
        missing, notes = result["measured_products"]["not_covered"], result["notes"]
        for i in (0, len(missing) - 1):
            told = tandem_json("explain", file, f"measured_products.not_covered[{i}].share")
            self.assertEqual(told["value"], missing[i]["share"])
            self.assertIn(missing[i]["product"], told["filled"])
        for i in (0, len(notes) - 1):
            self.assertEqual(tandem_json("explain", file, f"notes[{i}]")["filled"], notes[i])
        code, out, err = run("explain", file, f"notes[{len(notes)}]")
        self.assertEqual((code, out), (3, ""))
        self.assertIn(f"notes are 0 to {len(notes) - 1}\n", err)
        for key in ("step_time_range", "step_time_range.low_s"):
            self.assertEqual(tandem_json("explain", file, key)["range"], "none: it is the range of step_time_s")

    def test_facts_of_the_network_are_listed_only_for_steps_that_use_it(self):
        presets = SOURCE / "topology" / "presets"
        own = json.loads((presets / "dgx-a100-80gb.json").read_text())
        own["node"] = json.loads((presets / "nodes" / "dgx-a100.json").read_text())
        own["node"]["scale_out"].update(nics=4, nic_bytes_per_s="1 GB/s", latency_s="1 ms")
        own["fabric"].update(switch_latency_s="1 ms", oversubscription=8)
        self.folder.file("slow.json", json.dumps(own))
        for data, used in ((1, False), (4, True)):
            plan = changed(self.A100, **{"parallel": {"tensor": 8, "data": data}, "model.num_attention_heads": 8, "cluster.devices": 8 * data})
            told = [tandem_json("explain", self.folder.plan(changed(plan, **{"cluster.preset": preset})), "step_time_s")
                    for preset in ("dgx-a100-80gb", "./slow.json")]
            fields = {f["field"] for f in told[0]["facts"]}
            for field in ("scale_out.latency_s", "scale_out.nic_bytes_per_s", "scale_out.nics", "fabric.switch_latency_s", "fabric.oversubscription"):
                self.assertEqual(field in fields, used, field)
            self.assertEqual(told[0]["value"] != told[1]["value"], used)

    def test_a_users_own_facts_are_listed_with_their_place(self):
        presets = SOURCE / "topology" / "presets"
        own = json.loads((presets / "dgx-a100-80gb.json").read_text())
        own["device"] = json.loads((presets / "devices" / (own["device"] + ".json")).read_text())
        own["device"].update(memory_bytes_per_s="2.5 TB/s", name="40 of them")
        own["device"].pop("measured", None)
        own["fabric"]["switch_latency_s"] = "1 us"
        self.folder.file("own.json", json.dumps(own))
        file = self.folder.plan(changed(self.A100, **{"cluster.preset": "./own.json", "cluster.devices": 16, "parallel.data": 4,
                                                  "training.global_batch_size": 16}))  # two nodes: the fabric is in use
        told = tandem_json("explain", file, "step_time_s")["facts"]
        self.assertEqual({f["file"] for f in told if f["part"] == "device"}, {self.folder.path.as_posix() + "/./own.json"})
        self.assertIn("presets/nodes/dgx-a100.json", {f["file"] for f in told if f["part"] == "node"})
        facts = {(f["file"].split("/")[-1], f["field"]): f for f in told}
        self.assertEqual(facts["own.json", "device.memory_bytes_per_s"]["value"], '"2.5 TB/s"')
        self.assertEqual(facts["own.json", "device.memory_bytes_per_s"]["origin"], "no source given")
        self.assertIn(("own.json", "device.peak_flops_per_s"), {(f, k[:len("device.peak_flops_per_s")]) for f, k in facts})
        self.assertEqual(facts["own.json", "fabric.switch_latency_s"]["value"], '"1 us"')
        self.assertNotIn(("own.json", "device.name"), facts)

    def test_an_unknown_key_is_refused_with_the_nearest_one_and_the_command_that_prints_all(self):
        file = self.folder.plan(SMALL)
        near = {"step_tim_s": "step_time_s", "roles[x].arena_bytes": "roles[].arena_bytes", "expert_comm": "time_breakdown_s.expert_comm",
                "nonsense": None}
        for key, meant in near.items():
            code, out, err = run("explain", file, key)
            self.assertEqual((code, out), (3, ""), key)
            self.assertEqual(f'did you mean "{meant}"?' in err, meant is not None, err)
            for word in (key, "`tandem simulate PLAN --json`", "step_time_s"):
                self.assertIn(word, err)
            self.assertLess(max(len(sentence.split()) for sentence in re.split(r"[;:?]", err)), 25, err)
        roles = len(tandem_json("simulate", file)["roles"])
        code, out, err = run("explain", file, f"roles[{roles}].arena_bytes")
        self.assertEqual((code, out), (3, ""))
        self.assertIn(f"roles are 0 to {roles - 1}\n", err)

    def test_model_flops_are_those_of_a_hand_count(self):
        layers, hidden, inner, vocabulary, sequence, batch = 4, 1024, 4096, 32000, 2048, 4
        for flash in (True, False):
            file = self.folder.plan({
                "model": {"family": "llama", "num_layers": layers, "hidden_size": hidden, "num_attention_heads": 8,
                          "ffn_hidden_size": inner, "vocab_size": vocabulary, "pad_vocab_to": 1},
                "training": {"seq_length": sequence, "micro_batch_size": 1, "global_batch_size": batch, "flash_attention": flash},
                "cluster": {"preset": "dgx-h100", "devices": 1}})
            result = tandem_json("simulate", file)
            weights = layers * (4 * hidden**2 + 3 * hidden * inner) + hidden * vocabulary
            pairs = (sequence + 1) / 2 if flash else sequence  # for each token
            flops = batch * sequence * (6 * weights + 12 * layers * hidden * pairs)
            self.assertAlmostEqual(result["model_tflops_per_device"] * 1e12 * result["step_time_s"] / flops, 1, places=9)

    def test_model_flops_of_experts_are_those_that_tokens_visit_and_that_have_room(self):
        layers, hidden, inner, vocabulary, sequence, batch, experts, visited = 2, 1024, 2048, 32000, 1024, 4, 8, 2
        tokens, expert = batch * sequence, 3 * hidden * inner
        for split in ({}, {"data": 4, "expert": 4}, {"tensor": 2, "data": 2, "expert": 2, "sequence_parallel": True}):
            for factor in (0, 0.5, 1, 2, 4):
                file = self.folder.plan({
                    "model": {"family": "llama", "num_layers": layers, "hidden_size": hidden, "num_attention_heads": 8,
                              "ffn_hidden_size": inner, "vocab_size": vocabulary, "pad_vocab_to": 1,
                              "moe": {"num_experts": experts, "experts_per_token": visited, "capacity_factor": factor}},
                    "parallel": split,
                    "training": {"seq_length": sequence, "micro_batch_size": 1, "global_batch_size": batch, "flash_attention": False},
                    "cluster": {"preset": "dgx-h100", "devices": 4 if split else 1}})
                result = tandem_json("simulate", file)
                room = min(factor, 1) if factor else 1  # of what tokens visit
                weights = layers * (4 * hidden**2 + hidden * experts + visited * expert * room) + hidden * vocabulary
                model = tokens * (6 * weights + 12 * layers * hidden * sequence)
                empty = tokens * 6 * layers * visited * expert * max(factor - 1, 0)
                self.assertLessEqual(result["mfu"], result["hfu"])
                # The router is in every tensor rank's share of the rows once.
                for key, flops in (("model_tflops_per_device", model), ("hardware_tflops_per_device", model + empty)):
                    count = result[key] * 1e12 * result["step_time_s"] * (4 if split else 1)
                    self.assertAlmostEqual(count / flops, 1, places=9, msg=f"{key} {split} {factor}")

    def test_a_plan_on_an_unknown_cluster_is_not_explained(self):
        code, out, err = run("explain", self.folder.plan(changed(SMALL, **{"cluster.preset": "nowhere"})))
        self.assertEqual((code, out), (3, ""))
        self.assertIn('cluster.preset = "nowhere": there is no cluster preset of this name', err)


if __name__ == "__main__":
    tandem.main()

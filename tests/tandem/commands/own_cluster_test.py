#!/usr/bin/env python3
"""A user's own cluster and device: a copy of a preset predicts what the preset does, and what a file lacks is told."""
import json

import tandem
from tandem import SOURCE, WithFolder, changed, run, tandem_json

PRESETS = SOURCE / "topology" / "presets"
PLAN = {
    "stack": "megatron-core",
    "model": {"preset": "llama3-8b"},
    "parallel": {"tensor": 2, "pipeline": 2, "data": 4, "sequence_parallel": True, "zero_stage": 1},
    "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 64, "flash_attention": True},
    "cluster": {"preset": "dgx-h100", "devices": 16},
}


class OwnCluster(WithFolder):
    def setUp(self):
        super().setUp()
        self.cluster = json.loads((PRESETS / "dgx-h100.json").read_text())

    def simulated(self, cluster):
        (self.folder.path / "own.json").write_text(json.dumps(cluster))
        return tandem_json("simulate", self.folder.plan(changed(PLAN, **{"cluster.preset": "own.json"})))

    def test_records_and_a_calibration_name_own_files_from_where_they_stand(self):
        folder = self.folder.path / "lab"
        folder.mkdir()
        own = self.in_place()
        own["device"]["calibration"] = "mine.json"
        (folder / "own.json").write_text(json.dumps(own))
        (folder / "mine.json").write_text((SOURCE / "topology" / "calibration" / "h100.json").read_text())
        plan = changed(PLAN, **{"cluster.preset": "./own.json"})
        (folder / "plan.json").write_text(json.dumps(plan))
        predicted = tandem_json("simulate", folder / "plan.json", "--allow-oversize")["step_time_s"]
        (folder / "runs.jsonl").write_text(json.dumps({"id": "r", "plan": plan, "measured": {"step_time_s": 1.1 * predicted}}))
        record, = tandem_json("validate", folder / "runs.jsonl")["records"]
        self.assertEqual(record["predicted_step_time_s"], predicted)
        fit = tandem_json("calibrate", folder / "mine.json", folder / "runs.jsonl")
        self.assertEqual(fit["sources"][0]["records"], 1)
        self.assertTrue((folder / "mine.fitted.json").exists())
        (folder / "broken.jsonl").write_text(json.dumps({"id": "r", "plan": {}, "measured": {"step_time_s": 1}}))
        code, _, err = run("calibrate", folder / "mine.json", folder / "runs.jsonl")
        self.assertEqual(code, 3)
        self.assertIn("exists already; remove it", err)
        code, _, err = run("calibrate", folder / "mine.json", folder / "broken.jsonl", "-o", folder / "other.json")
        self.assertEqual(code, 3)
        self.assertIn("1 cannot be simulated", err)

    def in_place(self):
        return self.cluster | {"node": json.loads((PRESETS / "nodes/dgx-h100.json").read_text()),
                               "device": json.loads((PRESETS / "devices/h100-sxm5-80gb.json").read_text())}

    def test_without_a_calibration_a_step_is_a_bound_and_every_command_says_so(self):
        own = self.in_place()
        del own["device"]["calibration"]
        predicted = self.simulated(own)
        reason = predicted["step_time_range"]["wider"]
        self.assertTrue(reason.startswith("the device has no calibration"), reason)
        self.assertEqual(predicted["step_time_range"]["low_s"], predicted["step_time_s"])  # nothing is faster than its rates
        self.assertLess(self.simulated(self.in_place())["step_time_s"], predicted["step_time_range"]["high_s"])
        (self.folder.path / "own.json").write_text(json.dumps(own))
        plan = changed(PLAN, **{"cluster.preset": "own.json", "training.recompute": "full"})
        path = self.folder.plan(plan)
        layout = [word for axis in ("tensor=2", "pipeline=2", "micro_batch_size=1") for word in ("--axis", axis)]
        few = ("search", self.folder.plan(changed(plan, **{"parallel.data": None, "parallel.zero_stage": "auto"}), "asked.json"), *layout)
        self.assertEqual({row["step_time_wider"] for row in tandem_json(*few)["best"]}, {reason})
        self.assertRegex(run(*few)[1], r"\nbeyond the records, rows? .*: the device has no calibration")
        study = self.folder.file("study.json", json.dumps({"base": path, "axes": [{"field": "parallel.tensor", "values": [2]}]}))
        code, text, err = run("sweep", study, "--out", self.folder.path / "out")
        self.assertEqual(code, 0, err)
        self.assertIn("beyond the records, the best: " + reason, text)
        self.assertIn("the device has no calibration", (self.folder.path / "out" / "results.csv").read_text())
        text = run("plan", path, "--tokens", "1e12", "--price", 3)[1]
        self.assertTrue(text.startswith("warning: no record on H100 SXM5 80 GB: without a calibration the step time is a bound; "), text)
        self.assertIn("warning: the device has no calibration", text)

    def test_a_bound_is_ranked_by_the_middle_of_its_range_beside_predictions(self):
        own = self.in_place()
        del own["device"]["calibration"]
        bound = self.simulated(own)["step_time_range"]
        middle = (bound["low_s"] * bound["high_s"]) ** 0.5
        self.assertLess(1.4 * bound["low_s"], middle)  # published runs took 1.1 to 2.3 times their bounds
        step = tandem_json("simulate", self.folder.plan(PLAN))["step_time_s"]
        self.assertTrue(bound["low_s"] < step < middle, (bound, step))
        place, bare = "cluster.preset", str(self.folder.path / "own.json")
        days = step / bound["low_s"]  # between those of the bound and of the middle, times those of the bound
        plan = ("plan", self.folder.plan(PLAN), "--tokens", "1e12", "--price", 3, "--set", f"{place}={bare},dgx-h100")
        answer = tandem_json(*plan)
        first, second = answer["options"]
        self.assertEqual([first["bound"], second["bound"]], [False, True])
        self.assertLess(second["money"]["value"], first["money"]["value"])
        self.assertIn("figures of a device without a calibration are bounds", " ".join(answer["warnings"]))
        self.assertRegex(run(*plan)[1], r"own\.json .*  a bound, ranked as [\d.]+ days and [\d,]+\n")
        limit = days * second["days"]["value"]
        code, out, err = run(*plan[:-1], f"{place}={bare}", "--days", f"{limit:.3f}", "--json")
        self.assertEqual(code, 5, err)
        self.assertIn("days (a bound: the middle of its range); --days allows", err)
        change, = tandem_json("plan", self.folder.plan(PLAN), "--tokens", "1e12", "--price", 3, "--what-if", f"{place}={bare}")["what_if"]
        self.assertIn("are bounds, because it has no calibration", change["note"])
        study = {"base": self.folder.plan(PLAN), "axes": [{"field": place, "values": [bare, "dgx-h100"]}]}
        for name, goal in (("cost", {"goal": {"tokens": 1e12, "device_hour_price": 3}}), ("speed", {})):
            code, text, err = run("sweep", self.folder.file("study.json", json.dumps(study | goal)), "--out", self.folder.path / name)
            self.assertEqual(code, 0, err)
            self.assertRegex(text, r"best.*: cluster\.preset dgx-h100: ")
            self.assertRegex(text, r"own\.json .*; a bound, ranked as a step of [\d.]+ s\n")
        layout = [word for axis in ("tensor=2", "pipeline=2", "micro_batch_size=1", "zero=1", "recompute=none", "schedule=1f1b", "virtual_pipeline=1",
                                    "context=1", "sequence_parallel=true") for word in ("--axis", axis)]
        question = ("search", "llama3-8b", "--cluster", f"dgx-h100,{bare}", "--devices", 16, "--global-batch", 64, "--pareto", "--price", 3, *layout)
        front = tandem_json(*question)
        self.assertEqual([space["step_time_bound"] for space in front["spaces"]], [False, True])
        self.assertEqual({p["cluster"] for p in front["pareto"] if p["cluster"] == "dgx-h100"}, {"dgx-h100"})
        self.assertIn("own.json are bounds, the least of their ranges", run(*question)[1])

    def test_offloaded_tensors_must_fit_the_memory_of_the_host(self):
        plan = changed(PLAN, **{"cluster.preset": "own.json", "parallel.offload": {"optimizer": True}})
        path = self.folder.plan(plan)

        def told(memory):
            (self.folder.path / "own.json").write_text(json.dumps(self.cluster | {"host_memory_bytes": memory}))
            code, out, err = run("simulate", path, "--json")
            answer = json.loads(out)
            return code, answer["fits"], " ".join(note for note in answer["notes"] if "offloaded tensors take" in note), err

        # Masters and two moments in fp32 of half of the layers and of half of every matrix, shared by 4 data ranks; 8 ranks on a host.
        code, fits, note, _ = told("2 TiB")
        self.assertEqual((code, fits), (0, True))
        gib = float(note.split(" GiB of 2.00 TiB for 8 ranks")[0].split(" ")[-1])
        self.assertAlmostEqual(gib, 12 * 8.03e9 / 16 * 8 / 2**30, delta=0.1 * gib)
        code, fits, note, err = told("16 GiB")
        self.assertEqual((code, fits), (4, False))
        self.assertTrue(note.startswith("the host's memory is too small: "), note)
        self.assertIn("does not fit the memory of its hosts", err)
        study = self.folder.file("study.json", json.dumps({"base": path, "axes": [{"field": "parallel.tensor", "values": [2]}]}))
        run("sweep", study, "--out", self.folder.path / "out")
        self.assertIn("does not fit the memory of its hosts", (self.folder.path / "out" / "results.csv").read_text())
        del self.cluster["host_memory_bytes"]
        (self.folder.path / "own.json").write_text(json.dumps(self.cluster))
        notes = tandem_json("simulate", path)["notes"]
        self.assertTrue(any("does not say how much a host has (host_memory_bytes)" in note for note in notes), notes)

    def test_cards_without_a_network_offload_over_their_pcie_link(self):
        plan = {"model": {"preset": "qwen3-8b"}, "cluster": {"preset": "pcie-rtx-4090", "devices": 8},
                "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 8, "recompute": "full"},
                "parallel": {"data": 8, "zero_stage": 3, "offload": {"optimizer": True, "parameters": True}}}
        offloaded = tandem_json("simulate", self.folder.plan(plan))
        self.assertTrue(offloaded["fits"])
        link = {"cluster.override": {"host_link_bytes_per_s": "31.5 GB/s"}}  # PCIe 4.0 x16
        self.assertEqual(tandem_json("simulate", self.folder.plan(changed(plan, **link)))["step_time_s"], offloaded["step_time_s"])

    def test_whether_a_plan_fits_is_said_with_the_figure_that_decides(self):
        own, plan = self.in_place(), changed(PLAN, **{"cluster.preset": "own.json", "training.expandable_segments": True})
        segments = changed(plan, **{"training.expandable_segments": False})

        def told(memory, plan=plan):
            own["device"] |= {"memory_bytes": memory, "usable_memory_bytes": memory}
            (self.folder.path / "own.json").write_text(json.dumps(own))
            out = run("simulate", self.folder.plan(plan), "--allow-oversize")[1]
            return next(line for line in out.splitlines() if line.startswith("memory of rank "))

        result = self.simulated(own)
        peak, needed = result["peak_memory_bytes"], result["peak_memory_bytes"] - result["arena_bytes"] + result["live_peak_bytes"]
        self.assertLess(needed, peak)
        gib = lambda count: f"{count / 2**30:.1f} GiB"
        self.assertIn(f": {gib(needed)} of the device's 80.0 GiB, fits", told(80 * 2**30))
        self.assertIn(f": {gib(needed)} of the device's {gib(needed)}, fits", told(needed))
        self.assertIn(f": {gib(needed)} of the device's {gib(needed - 1)}, DOES NOT FIT", told(needed - 1))
        self.assertRegex(told(needed, segments), rf": [0-9.]+ GiB of the device's {gib(needed)}, DOES NOT FIT")
        two = changed(plan, **{"cluster.devices": 8, "cluster.override": {"ranks_per_device": 2}})
        self.assertRegex(told(80 * 2**30, two), r": [0-9.]+ GiB; the 2 ranks that share a device need [0-9.]+ GiB of its 80.0 GiB, fits")
        self.assertRegex(told(2**30, two), r": [0-9.]+ GiB; the 2 ranks .* of its 1.00 GiB, DOES NOT FIT")

    def test_what_is_needed_is_the_most_that_any_rank_needs_which_need_not_have_most_laid_out(self):
        own = self.in_place()
        plan = changed(PLAN, **{"cluster.preset": "own.json", "cluster.devices": 128, "stack": "megatron-deepspeed", "training.recompute": "full",
                                "training.seq_length": 1024, "training.micro_batch_size": 4, "training.global_batch_size": 128,
                                "parallel": {"tensor": 8, "pipeline": 8, "data": 2}})
        (self.folder.path / "own.json").write_text(json.dumps(own))
        alive = max(r["live_peak_bytes"] + r["memory_bytes"]["runtime"] for r in tandem_json("simulate", self.folder.plan(plan))["roles"])
        own["device"] |= {"memory_bytes": alive, "usable_memory_bytes": alive}
        (self.folder.path / "own.json").write_text(json.dumps(own))
        file = self.folder.plan(plan)
        result = tandem_json("simulate", file, "--allow-oversize")
        needed = [r["needed_bytes"] for r in result["roles"]]
        heaviest = max(result["roles"], key=lambda r: r["peak_memory_bytes"])
        self.assertFalse(result["fits"])
        self.assertLess(heaviest["needed_bytes"], max(needed))
        self.assertEqual(result["needed_bytes"], max(needed))
        rank = result["roles"][needed.index(max(needed))]["first_rank"]
        self.assertRegex(tandem_json("explain", file, "needed_bytes")["filled"], rf" on rank {rank}\Z")
        own_figure = tandem_json("explain", file, f"roles[{result['roles'].index(heaviest)}].needed_bytes")
        self.assertEqual(own_figure["value"], heaviest["needed_bytes"])

    def test_a_copy_of_a_preset_predicts_what_the_preset_does(self):
        preset = tandem_json("simulate", self.folder.plan(PLAN))
        for own in (self.cluster, self.in_place()):
            copy = self.simulated(own)
            for key in ("step_time_s", "peak_memory_bytes", "mfu", "step_time_range", "time_breakdown_s", "memory_bytes"):
                self.assertEqual(copy[key], preset[key], key)

    def test_a_device_without_a_generation_has_that_of_its_calibration(self):
        own = self.in_place()
        del own["device"]["generation"]
        (self.folder.path / "own.json").write_text(json.dumps(own))
        plans = [changed(PLAN, stack=None, **{"cluster.preset": preset}) for preset in ("own.json", "dgx-h100")]
        copy, preset = (tandem_json("simulate", self.folder.plan(plan)) for plan in plans)
        self.assertEqual(copy["plan"]["stack"]["name"], "megatron-core")
        self.assertEqual((copy["step_time_s"], copy["plan"]["stack"]), (preset["step_time_s"], preset["plan"]["stack"]))

    def test_a_generation_that_nothing_knows_is_refused_with_the_nearest(self):
        own = self.in_place()
        own["device"]["generation"] = "hoper"
        (self.folder.path / "own.json").write_text(json.dumps(own))
        plan = self.folder.plan(changed(PLAN, **{"cluster.preset": "own.json"}))
        code, _, err = run("simulate", plan)
        self.assertEqual(code, 3)
        self.assertIn('device.generation = "hoper": is a generation that no device preset and no stack file names', err)
        self.assertIn('did you mean "hopper"?', err)
        for known in ("hopper", "turing"):  # no device preset is a turing, a stack file names it
            own["device"]["generation"] = known
            (self.folder.path / "own.json").write_text(json.dumps(own))
            self.assertNotIn("no stack file names", run("simulate", plan, "--allow-oversize")[2], known)

    def test_nics_that_do_not_divide_among_the_devices_are_told(self):
        own = self.in_place()
        for nics, told in ((5, True), (8, False), (4, False), (16, False)):
            own["node"]["scale_out"]["nics"] = nics
            notes = [note for note in self.simulated(own)["notes"] if f"{nics} NICs do not divide among 8 devices" in note]
            self.assertEqual(len(notes), told, nics)

    def test_a_value_that_is_missing_or_of_no_type_is_told_with_an_example(self):
        own = self.in_place()
        own["device"]["peak_flops_per_s"] = {"int8": "1979 TFLOP/s"}
        torus = json.loads((PRESETS / "nodes/trn1.32xlarge.json").read_text())
        del torus["scale_up"]["cores_per_chip"]
        cube = json.loads((PRESETS / "nodes/dgx-1v.json").read_text())
        del cube["scale_up"]["ring"]
        for cluster, told in ((own, "use fp64, fp32, tf32, bf16"), (self.in_place() | {"node": torus}, '"cores_per_chip": 2'),
                              (self.in_place() | {"node": cube}, '"ring": [0, 1, 3, 2]')):
            (self.folder.path / "own.json").write_text(json.dumps(cluster))
            code, _, err = run("simulate", self.folder.plan(changed(PLAN, **{"cluster.preset": "own.json"})))
            self.assertEqual(code, 3, err)
            self.assertIn(told, err)

    def test_a_device_without_calibration_is_told(self):
        own = self.in_place()
        self.assertFalse(any("no calibration" in note for note in self.simulated(own)["notes"]))
        with_calibration = self.simulated(own)["step_time_s"]
        del own["device"]["calibration"]
        bare = self.simulated(own)
        self.assertTrue(any("no calibration" in note for note in bare["notes"]))
        lost = lambda result: [note for note in result["notes"] if "its device names no generation" in note]
        self.assertEqual(lost(bare), [])
        del own["device"]["generation"]
        new = self.simulated(own)
        self.assertEqual(len(lost(new)), 1)
        self.assertIn("what stack megatron-core sets on some generations is left out: parallel.overlap_tensor_sum true and training.fusion", lost(new)[0])
        # A bound must not count a score matrix, which frameworks on new devices do not keep.
        usual = {k: v for k, v in PLAN["training"].items() if k != "flash_attention"}
        for stack in ("tandem", "megatron-core", "pytorch-fsdp"):
            plan = self.folder.plan(PLAN | {"stack": {"name": stack, "rules": "note"}, "training": usual, "cluster": {"preset": "own.json", "devices": 16}})
            completed = tandem_json("simulate", plan, "--allow-oversize")["plan"]
            self.assertTrue(completed["training"]["flash_attention"], stack)
        self.assertLess(bare["step_time_s"], with_calibration)
        self.assertIn("the device has no calibration", bare["step_time_range"]["basis"])

    def test_rates_of_a_device_that_do_not_go_together_are_told(self):
        told = lambda own: [note for note in self.simulated(own)["notes"] if "is one of them in another unit?" in note]
        self.assertEqual(told(self.in_place()), [])
        for key, value, flops in (("peak_flops_per_s", {"bf16": "989 GFLOP/s"}, "0.30 FLOPs"), ("memory_bytes_per_s", "3.35 GB/s", r"295,\d+ FLOPs")):
            own = self.in_place()
            own["device"][key] = value
            del own["device"]["measured"]
            self.assertEqual(len(told(own)), 1, key)
            self.assertRegex(told(own)[0], flops)

    def test_explain_knows_the_facts_of_a_cluster_in_parts(self):
        parts = self.in_place()
        for part in ("node", "device"):
            (self.folder.path / f"{part}.json").write_text(json.dumps(parts[part]))
        (self.folder.path / "own.json").write_text(json.dumps(self.cluster | {"node": "node.json", "device": "device.json"}))
        plan = self.folder.plan(changed(PLAN, **{"cluster.preset": "own.json"}))
        facts = tandem_json("explain", plan, "step_time_s")["facts"]
        self.assertIn(("device", (self.folder.path / "device.json").as_posix()), {(f["part"], f["file"]) for f in facts})

    def test_every_mistake_in_a_file_is_named_with_file_field_and_remedy(self):
        for part, key, value, words in (
            ("device", "peak_flops_per_s", {"bf16": 989}, ["device.peak_flops_per_s", "less than a GFLOP/s", "312 TFLOP/s"]),
            ("device", "memory_bytes", 80, ["device.memory_bytes", "less than a megabyte", "80 GiB"]),
            ("device", "memory_bytes", None, ["device.memory_bytes", "is missing", "80 GiB"]),
            ("device", "memory_bytes_per_s", "3.35 TB", ["device.memory_bytes_per_s", "not a unit"]),
            ("node", "kind", "ladder", ["node.kind", "crossbar"]),
            ("device", "calibration", "h101", ["own.json: device.calibration", "h101", "h100"]),
            ("device", "measured", "h100-sxm5-80g", ["own.json: device.measured", "measured table", "h100-sxm5-80gb"]),
        ):
            own = self.in_place()
            own[part][key] = value
            if value is None:
                del own[part][key]
            (self.folder.path / "own.json").write_text(json.dumps(own))
            code, out, err = run("simulate", self.folder.plan(changed(PLAN, **{"cluster.preset": "own.json"})))
            self.assertEqual((code, out), (3, ""), err)
            self.assertRegex(err, r"\Atandem: error: [^\n]+\n\Z")
            for word in words:
                self.assertIn(word, err)


if __name__ == "__main__":
    tandem.main()

#!/usr/bin/env python3
"""Measured matrix products of accelerators: what is read from where, said, explained and refused."""
import json
import pathlib
import subprocess
import sys

import tandem
from explain_test import keys_of
from tandem import SOURCE, WithFolder, run, tandem_json

# One H200 whose feed-forward products are among those measured on it: 4,096 tokens, 4,096 to 12,288.
H200 = {
    "model": {"family": "gpt", "num_layers": 2, "hidden_size": 4096, "num_attention_heads": 32, "ffn_hidden_size": 12288, "vocab_size": 51200},
    "parallel": {},
    "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 1, "precision": "bf16", "flash_attention": True},
    "cluster": {"preset": "dgx-h200", "devices": 1},
}
A100 = {**H200, "cluster": {"preset": "dgx-a100-80gb", "devices": 1}}
MAKER = SOURCE / "topology" / "measured" / "product_tables.py"


class Measured(WithFolder):
    def made(self, name, content, *options):
        """Tables that the maker makes of a list."""
        out = self.folder.path / "tables"
        source = self.folder.file(name, content)
        done = subprocess.run([sys.executable, MAKER, out, source, *options], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out, done

    def test_text_json_and_page_say_how_much_was_measured(self):
        plan = self.folder.plan(H200)
        found = tandem_json("simulate", plan)["measured_products"]
        self.assertEqual((found["table"], found["card"], found["shapes"]), ("h200-sxm-141gb", "NVIDIA H200", 5732))
        self.assertTrue(0.1 < found["share"] < 0.9, found["share"])
        self.assertAlmostEqual(found["share"] + sum(p["share"] for p in found["not_covered"]), 1, places=9)
        missing = {(p["product"], p["m"], p["n"], p["k"]) for p in found["not_covered"]}
        self.assertNotIn(("forward", 4096, 12288, 4096), missing)
        self.assertIn(("forward", 4096, 4096, 12288), missing)
        lines = [line for line in run("simulate", plan)[1].splitlines() if line.startswith("matrix products: ")]
        self.assertEqual(len(lines), 1)
        self.assertIn(f"{100 * found['share']:.0f} % of their time from measured shapes (h200-sxm-141gb, {found['date']})", lines[0])
        self.assertIn(f"{len(found['not_covered'])} shapes not covered", lines[0])
        page = self.folder.path / "page.html"
        self.assertEqual(run("report", plan, "--out", page)[0], 0)
        self.assertIn(lines[0], page.read_text(encoding="utf-8"))

    def test_nothing_is_said_where_a_device_has_no_table(self):
        plan = self.folder.plan(A100)
        self.assertNotIn("measured_products", tandem_json("simulate", plan))
        self.assertNotIn("matrix products", run("simulate", plan)[1])

    def test_every_new_key_is_explained_with_its_value_and_table(self):
        plan = self.folder.plan(H200)
        keys = [(k, v) for k, v in keys_of(tandem_json("simulate", plan)) if k.startswith("measured_products")]
        self.assertEqual(len(keys), 8 + 9)
        for key, value in keys:
            told = tandem_json("explain", plan, key)
            self.assertTrue(told["formula"] and told["filled"], key)
            self.assertIn("measured", {f["part"] for f in told["facts"]}, key)
            if isinstance(value, (int, float)):
                self.assertEqual(told["value"], value, key)
        facts = tandem_json("explain", plan, "step_time_s")["facts"]
        self.assertIn("own measurement", next(f["origin"] for f in facts if f["part"] == "measured"))

    def test_a_table_of_another_device_is_refused(self):
        table = SOURCE / "topology" / "measured" / "h200-sxm-141gb.json"
        for command in ("simulate", "report"):
            code, out, err = run(command, self.folder.plan(A100), "--cost-table", table)
            self.assertEqual((code, out), (3, ""))
            self.assertRegex(err, r"\Atandem: error: .*h200-sxm-141gb\.json: device.*h200-sxm-141gb.*dgx-a100-80gb.*\n\Z")

    def test_a_preset_that_names_a_table_of_another_device_is_refused(self):
        device = json.loads((SOURCE / "topology/presets/devices/a100-sxm4-80gb.json").read_text(encoding="utf-8"))
        cluster = {**json.loads((SOURCE / "topology/presets/dgx-a100-80gb.json").read_text(encoding="utf-8")),
                   "device": {**device, "measured": "h200-sxm-141gb"}}
        path = self.folder.file("cluster.json", json.dumps(cluster))
        code, out, err = run("simulate", self.folder.plan({**A100, "cluster": {"preset": path, "devices": 1}}))
        self.assertEqual((code, out), (3, ""))
        self.assertRegex(err, r"\Atandem: error: .*h200-sxm-141gb\.json: device.*h200-sxm-141gb.*another device than A100.*\n\Z")

    def test_a_published_list_becomes_tables_by_card_that_simulate_reads(self):
        row = {"source": "MooreThreads/SimuMax:x.json", "verified": True, "device": "NVIDIA A100 SXM", "op": "matmul", "efficiency": 0.5,
               "peak_tflops": 200, "tflops": 100,
               "shape": {"b": 1, "m": 4096, "k": 4096, "n": 12288, "layout": "TN", "accumulate": "False", "out_dtype": "bf16"}}
        attention = {**row, "op": "sdp_fwd", "shape": {}}
        unknown = {**row, "device": "not stated"}
        out, done = self.made("gemm.json", json.dumps([row, attention, unknown]))
        self.assertEqual(done.stdout, "a100-sxm4-80gb-simumax: 1 products\n")
        self.assertIn("1 x sdp_fwd: attention", done.stderr)
        self.assertIn("1 x matmul: of a card without a preset", done.stderr)
        plan, table = self.folder.plan(A100), out / "a100-sxm4-80gb-simumax.json"
        before, after = tandem_json("simulate", plan), tandem_json("simulate", plan, "--cost-table", table)
        found = after["measured_products"]
        self.assertEqual((found["shapes"], found["table"]), (1, table.name))
        measured = json.loads(table.read_text(encoding="utf-8"))["entries"]["bf16"]["matmul"][0]["seconds"]
        self.assertAlmostEqual(measured / (2 * 4096 * 12288 * 4096 / 100e12), 1, places=4)
        self.assertNotEqual(before["step_time_s"], after["step_time_s"])

    def test_own_measurements_become_a_table_of_their_three_products(self):
        lines = [{"card": "C", "torch": "2", "cuda": "13", "date": "2026-11-20"}, {"op": "host: linear", "seconds": 0.25}]
        lines += [{"op": "product", "kind": kind, "shape": {"m": 2, "n": 3, "k": 5}, "type": "bf16", "seconds": 1.0, "steady_s": 2.0}
                  for kind in ("forward", "input gradient", "weight gradient")]
        lines.append({**lines[-1], "shape": {"m": 1, "n": 1, "k": 1}, "seconds": 0.3, "steady_s": 0.4})  # less than twice the host's time
        out, done = self.made("kernels.jsonl", "\n".join(map(json.dumps, lines)), "--device", "h200-sxm-141gb")
        self.assertIn("1 x product: so short", done.stderr)
        table = json.loads((out / "h200-sxm-141gb.json").read_text(encoding="utf-8"))
        self.assertEqual([(s["m"], s["n"], s["k"], s["trans_a"], s["trans_b"], s["sustained_s"]) for s in table["entries"]["bf16"]["matmul"]],
                         [(2, 3, 5, False, True, 2.0), (2, 5, 3, False, False, 2.0), (3, 5, 2, True, False, 2.0)])


if __name__ == "__main__":
    tandem.main()

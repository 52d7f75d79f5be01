#!/usr/bin/env python3
"""compare SIM TRACE... and TRACE TRACE: traces made of a simulated timeline come out as that timeline, and what differs is said."""
import collections
import csv
import gzip
import json
import sys
import unittest

import tandem
from tandem import SMALL, SOURCE, WithFolder, run, shown, tandem_json

sys.path.insert(0, str(SOURCE / "tests" / "fixtures"))
import kineto_trace  # noqa: E402

RANK = 5
# A kernel of the class that a task has; None: the class of communication.
KERNEL_OF = [("optimizer", "multi_tensor_apply_kernel<AdamFunctor>"), ("layernorm", "vectorized_layer_norm_kernel"), ("matmul", "ampere_sgemm_128x64_nn"),
             ("attention_scores", "ampere_sgemm_64x64_tn"), ("attention_context", "ampere_sgemm_64x64_nn"), ("attention_softmax", "scaled_masked_softmax"),
             ("cross_entropy", "nll_loss_forward"), ("vocab", "cunn_SoftMaxForward<LogSoftMaxForwardEpilogue>")]
NAME_OF = {"all_reduce": "allreduce", "all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base", "send": "send", "recv": "recv"}


def kernel_of(task):
    """(kernel, the operation that launches it) of the class that a task has."""
    if task["block"] == "optimizer":
        return KERNEL_OF[0][1], "aten::op"
    if task["block"] == "tie" or task["task"].startswith("accumulate_"):
        return "vectorized_elementwise_kernel<CUDAFunctor_add>", "torch::autograd::AccumulateGrad"
    return next((kernel for kind, kernel in KERNEL_OF if task["kind"].startswith(kind)), "vectorized_elementwise_kernel<SiluFunctor>"), "aten::op"


def lane_of(timeline, rank):
    return next(lane for lane in timeline["lanes"] if rank in lane["ranks"])


def members(group):
    """Ranks of a group of RANK in 2 x 2 x 2 ranks, tensor fastest, then data, then pipeline."""
    free = {"tensor": [1], "data": [2], "shard": [2], "pipeline": [4], "embedding": [4], "model": [1, 4], "world": [1, 2, 4]}[group]
    return [r for r in range(8) if (r ^ RANK) & ~sum(free) == 0]


def traced(timeline, steps=1, stretch=1.0, world=8, split=1):
    """A trace of RANK in microseconds where the timeline has picoseconds; `split`: every gradient reduction as so many smaller ones."""
    trace = kineto_trace.Trace(RANK, world)
    column = {name: i for i, name in enumerate(timeline["span_columns"])}
    for number in range(steps):
        start = number * timeline["step_time_ps"] * stretch / 1e6
        spans = lane_of(timeline, RANK)["spans"]
        apart = timeline["step_time_ps"] * stretch / 1e6 / (len(spans) + 2)  # of two launches
        for place, span in enumerate(spans, 1):
            task = timeline["tasks"][span[column["task"]]]
            communicates = task["group"] or task["kind"] in ("send", "recv")
            begin = span[column["ready_ps" if communicates else "started_ps"]] * stretch / 1e6 + start
            time = span[column["ended_ps"]] * stretch / 1e6 + start - begin
            if not communicates:
                kernel, under = kernel_of(task)
                trace.kernel(kernel, begin, time, start + place * apart, under, width=apart / 4)
                continue
            ranks = members(task["group"] or "pipeline")
            parts = split if task["group"] in ("data", "shard") else 1
            for part in range(parts):
                facts = {"Collective name": NAME_OF[task["kind"]], "In msg nelems": task["payload_bytes"] // 4 // parts, "Group size": len(ranks), "dtype": "Float",
                         "Process Group Ranks": str(ranks)}
                trace.kernel(f"ncclDevKernel_{task['kind']}", begin + part * time / parts, time / parts, start + place * apart, stream=20, **facts)
        trace.step(number + 10, start, timeline["step_time_ps"] * stretch / 1e6)
    return trace


class Traces(WithFolder):
    def setUp(self):
        super().setUp()
        self.simulated = str(self.folder.path / "simulated.json")
        code, _, stderr = run("simulate", self.folder.plan(SMALL), "--timeline", self.simulated)
        self.assertEqual(code, 0, stderr)
        self.timeline = json.loads((self.folder.path / "simulated.json").read_text(encoding="utf-8"))

    def trace(self, name="trace.json", **how):
        return self.folder.file(name, traced(self.timeline, **how).text())

    def sums(self):
        """Seconds of RANK by the fate of a task: what computes, and communication by axis."""
        column = {name: i for i, name in enumerate(self.timeline["span_columns"])}
        sums = collections.Counter()
        for span in lane_of(self.timeline, RANK)["spans"]:
            task = self.timeline["tasks"][span[column["task"]]]
            communicates = task["group"] or task["kind"] in ("send", "recv")
            axis = {"": "pipeline", "shard": "data"}.get(task["group"], task["group"])
            key = f"{axis} communication" if communicates else "computes"
            sums[key] += 1e-12 * (span[column["ended_ps"]] - span[column["ready_ps" if communicates else "started_ps"]])
        return sums

    def test_a_trace_of_the_simulated_step_has_no_error(self):
        found = tandem_json("compare", self.simulated, self.trace(steps=3), "--tolerance", "1%")
        self.assertEqual(found["verdict"], "within")
        self.assertAlmostEqual(found["step"]["error"], 0, places=5)
        self.assertEqual(found["step"]["traced_steps"], 3)
        self.assertEqual(found["traces"][0]["rank"], RANK)
        self.assertEqual(found["notes"], [])
        for key, pair in found["device"].items():
            self.assertAlmostEqual(pair["simulated_s"], pair["measured_s"], delta=1e-3 * found["step"]["measured_s"], msg=key)
        sums = self.sums()
        for line in found["classes"]:
            self.assertEqual(line["tasks"], line["kernels"], line["class"])
            self.assertAlmostEqual(line["simulated_s"], line["measured_s"], delta=1e-4 * found["step"]["measured_s"])
            if line["class"].endswith("communication"):
                self.assertAlmostEqual(line["simulated_s"], sums.pop(line["class"]), places=9)
        self.assertAlmostEqual(sum(line["simulated_s"] for line in found["classes"] if not line["class"].endswith("communication")), sums.pop("computes"), places=9)
        self.assertFalse(sums)
        for line in found["collectives"]:
            self.assertEqual(line["simulated_calls"], line["measured_calls"], line)

    def test_a_slower_run_is_outside_of_the_tolerance(self):
        slow = self.trace(stretch=1.5)
        code, stdout, stderr = run("compare", self.simulated, slow, "--tolerance", "15%")
        self.assertEqual(code, 6)
        self.assertIn("error of the step time -33.3 % is outside +-15.0 %", stderr)
        self.assertIn("by class, what differs most first", stdout)
        for value in ("nan", "0", "inf"):
            code, _, err = run("compare", self.simulated, slow, "--step-time", value, "--tolerance", "1%")
            self.assertEqual(code, 2)
            self.assertIn("is no number above 0", err)
        told = tandem_json("compare", self.simulated, slow, "--step-time", str(self.timeline["step_time_ps"] * 1e-12), "--tolerance", "1%")
        self.assertEqual(told["verdict"], "within")
        self.assertTrue(any("the traced steps are +50.0 % off --step-time" in note for note in told["notes"]), told["notes"])

    def test_other_buckets_of_gradients_are_noted(self):
        notes = tandem_json("compare", self.simulated, self.trace(split=4))["notes"]
        self.assertEqual(len([n for n in notes if " of data: the run makes " in n or " of shard: the run makes " in n]), 1, notes)

    def test_compressed_traces_of_several_ranks_are_read(self):
        one = self.folder.file("a.json.gz", gzip.compress(traced(self.timeline).text().encode()))
        other = traced(self.timeline)
        other.head["distributedInfo"]["rank"] = 0
        found = tandem_json("compare", self.simulated, one, self.folder.file("b.json", other.text()))
        self.assertEqual([t["rank"] for t in found["traces"]], [RANK, 0])

    def test_unknown_kernels_are_listed_by_name_and_time(self):
        trace = traced(self.timeline)
        trace.kernel("someone_elses_kernel", 5, 2, 3)
        found = tandem_json("compare", self.simulated, self.folder.file("trace.json", trace.text()))
        self.assertEqual([u["kernel"] for u in found["unknown"]], ["someone_elses_kernel"])
        self.assertAlmostEqual(found["unknown"][0]["measured_s"], 2e-6)

    def run_of(self, name, ranks=(RANK,), **how):
        """A folder with one trace of each rank, and a file that is none."""
        folder = self.folder.path / name
        folder.mkdir()
        for rank in ranks:
            trace = traced(self.timeline, **how)
            trace.head["distributedInfo"]["rank"] = rank
            (folder / f"rank{rank}.json").write_text(trace.text(), encoding="utf-8")
        (folder / "notes.txt").write_text("steps 10 to 12", encoding="utf-8")
        return str(folder)

    def test_two_runs_are_compared_by_their_traces(self):
        today, yesterday = self.run_of("today", (0, RANK), steps=3, stretch=1.2), self.run_of("yesterday", (0, RANK), steps=3)
        code, stdout, stderr = run("compare", today, yesterday, "--tolerance", "10%")
        self.assertEqual(code, 6)
        self.assertIn("change of the step time +20.0 % (", stderr)
        self.assertIn(" is outside +10.0 %", stderr)
        self.assertIn("by kernel, what differs most first", stdout)
        self.assertEqual(run("compare", yesterday, today, "--tolerance", "10%")[0], 0)
        found = tandem_json("compare", today, yesterday)
        self.assertEqual([[t["rank"] for t in found[f"{side}_traces"]] for side in ("new", "baseline")], [[0, RANK], [0, RANK]])
        for line in found["classes"] + found["kernels"]:
            self.assertAlmostEqual(line["new_s"], 1.2 * line["baseline_s"], delta=1e-3 * found["step"]["baseline_s"])
        self.assertEqual({line["phase"] for line in found["phases"]}, {"forward", "backward", "optimizer"})

    def test_a_folder_stands_for_the_traces_in_it(self):
        folder = self.run_of("run", (0, RANK))
        found = tandem_json("compare", self.simulated, folder)
        self.assertEqual([t["rank"] for t in found["traces"]], [0, RANK])

    def test_csv_and_page_hold_what_compare_says(self):
        trace, page, table = self.trace(), self.folder.path / "page.html", self.folder.path / "lines.csv"
        for first, keys in ((self.simulated, ("simulated_s", "measured_s")), (self.trace("new.json", stretch=1.1), ("new_s", "baseline_s"))):
            found = tandem_json("compare", first, trace, "--html", str(page), "--csv", str(table))
            data = page.read_text(encoding="utf-8").partition('id="data">')[2].partition("</script>")[0]
            self.assertEqual(json.loads(data), found)
            self.assertIn("Collectives include waiting for other ranks.", shown(page))
            rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
            self.assertEqual([r["class"] for r in rows if r["table"] == "classes"], [line["class"] for line in found["classes"]])
            step = next(r for r in rows if r["table"] == "step")
            for key in keys:
                self.assertAlmostEqual(float(step[key]), found["step"][key])
        code, _, stderr = run("compare", self.simulated, self.simulated, "--csv", str(table))
        self.assertEqual(code, 0, stderr)
        rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
        self.assertEqual({r["table"] for r in rows}, {"step", "waiting", "kinds", "stages", "collectives", "operations"})

    def test_the_fixtures_are_what_their_script_makes(self):
        trace, expected = kineto_trace.made()
        self.assertEqual((SOURCE / "tests" / "fixtures" / "kineto_trace.json").read_text(encoding="utf-8"), trace.text() + "\n")
        self.assertEqual(json.loads((SOURCE / "tests" / "fixtures" / "kineto_expected.json").read_text(encoding="utf-8")),
                         json.loads(json.dumps(expected)))

    def refused(self, text, *arguments):
        code, _, stderr = run("compare", *arguments)
        self.assertEqual(code, 3, stderr)
        self.assertIn(text, stderr)

    def test_what_cannot_be_compared_is_refused(self):
        trace = self.trace()
        self.refused("the simulated plan has 8 ranks", self.simulated, self.trace("other.json", world=16))
        self.refused("--memory-tolerance means nothing", self.simulated, trace, "--memory-tolerance", "5%")
        self.refused("--trace-steps means nothing", self.simulated, self.simulated, "--trace-steps", "2")
        again = self.trace("again.json")
        self.refused(f"{again}: distributedInfo.rank = {RANK}: {trace} is of this rank, too", self.simulated, trace, again)
        self.refused("is the rank of one trace", self.simulated, trace, trace, "--rank", "1")
        self.refused("give one timeline, or one trace of each rank", self.simulated, trace, self.simulated)
        self.refused(f"swap them: tandem compare {self.simulated} {trace}", trace, self.simulated)
        self.refused("tandem compare NEWFOLDER OLDFOLDER", trace, again, trace)
        self.refused("--rank: means nothing for two runs", trace, again, "--rank", "1")
        self.refused("--step-time: means nothing for two runs", trace, again, "--step-time", "1")
        self.refused("traced steps are too few to tell a change of the step time from chance", trace, again, "--tolerance", "5%")
        (self.folder.path / "empty").mkdir()
        self.refused("has no trace of PyTorch's profiler", trace, str(self.folder.path / "empty"))
        own = str(self.folder.path / "chrome.json")
        self.assertEqual(run("simulate", self.folder.plan(SMALL), "--trace", own)[0], 0)
        self.refused("otherData.performer = simulated: is of Tandem's own --trace", self.simulated, own)
        self.refused("ProfilerActivity.CUDA", self.simulated, self.folder.file("cpu.json", '{"traceEvents": []}'))
        self.refused("compressed data ends early", self.simulated, self.folder.file("cut.gz", gzip.compress(traced(self.timeline).text().encode())[:2000]))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Searches that are spread over processes or over time: shards, kept files and interruptions."""
import json
import pathlib
import signal
import subprocess
import time

import tandem
from searching import AXES, Searching
from tandem import PROGRAM, SMALL, changed, run


class Parts(Searching):
    """Searches that are spread over processes, or over time."""
    def shards(self, plan, count, *arguments):
        files = [self.path(f"part-{i}.json") for i in range(count)]
        for i, file in enumerate(files):
            code, out, err = run("search", plan, *AXES, *arguments, "--shard", f"{i}/{count}", "--keep", file)
            self.assertEqual(code, 0, err)
            self.assertIn(f"shard {i}/{count}", out)
        return files

    def test_shards_merge_to_the_bytes_of_one_process(self):
        plan = self.small()
        for best, events in ((4, 100), (4, 3)):
            options = ("--best", best, "--events", events)
            files = self.shards(plan, 3, *options)
            for form in ((), ("--json",)):
                whole = run("search", plan, *AXES, *options, *form)
                self.assertEqual(run("search", plan, *AXES, *options, *form, "--merge", *files), whole)
            for file in files:
                pathlib.Path(file).unlink()

    def test_a_search_that_is_kept_is_not_done_again(self):
        plan, file = self.small(), self.path("kept.json")
        first = run("search", plan, *AXES, "--keep", file)
        again = run("search", plan, *AXES, "--keep", file)
        self.assertEqual((first[0], first[1]), (0, again[1]))
        self.assertIn(f"goes on from {file}", again[2])

    def test_an_interrupted_search_goes_on_to_the_same_bytes(self):
        question = ("llama2-70b", "--cluster", "dgx-h100", "--devices", 64, "--global-batch", 128, "--axis", "zero=1", "--json")
        whole, file, codes = run("search", *question), self.path("kept.json"), []
        while len(codes) < 50 and (not codes or codes[-1] != 0):
            process = subprocess.Popen([PROGRAM, "search", *map(str, question), "--keep", file], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            time.sleep(0.3 + 0.2 * len(codes))  # each gets further than the one before
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
            codes.append(process.returncode)
            self.assertIn(process.returncode, (0, 130), err)
        self.assertEqual(codes[-1], 0, codes)
        self.assertEqual(out.decode(), whole[1])
        self.assertEqual(codes[0], 130, "it ended before it was interrupted")

    def test_a_file_of_the_other_kind_of_search_gives_its_simulations_alone(self):
        plan, file = self.small(), self.path("kept.json")
        self.assertEqual(run("search", plan, *AXES, "--keep", file)[0], 0)
        code, out, err = run("search", plan, *AXES, "--pareto", "--merge", file)
        self.assertEqual((code, out), (3, ""))
        self.assertIn(f"{file}: front = false: was written by a search without --pareto", err)
        alone = run("search", plan, *AXES, "--pareto")
        code, out, err = run("search", plan, *AXES, "--pareto", "--keep", file)
        self.assertEqual((code, out), alone[:2], err)
        self.assertIn(f"takes the simulated layouts of {file}, which was written without --pareto", err)
        self.assertIn(f"goes on from {file}", run("search", plan, *AXES, "--pareto", "--keep", file)[2])

    def test_the_first_simulated_layouts_are_kept_at_once(self):
        file = self.folder.path / "kept.json"
        process = subprocess.Popen([PROGRAM, "search", "llama2-70b", "--cluster", "dgx-h100", "--devices", "256", "--global-batch", "1024",
                                    "--jobs", "1", "--keep", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        simulated = []
        while not simulated and process.poll() is None:  # on a busy machine it is kept before, too
            time.sleep(0.01)
            if file.exists():
                kept = json.loads(file.read_text(encoding="utf-8"))
                simulated = kept["spaces"][0]["knowledge"]["simulated"]
        process.kill()
        self.assertEqual(process.wait(), -signal.SIGKILL, "it ended by itself")
        self.assertIn(len(simulated), range(10, 41, 10))  # ten numbers of each; four are simulated at a time
        self.assertFalse(kept["finished"])

    def interrupted(self, *arguments):
        """Exit code, stdout and stderr of a search of minutes that is ended when it has said for the first time how far it is."""
        process = subprocess.Popen([PROGRAM, "search", "deepseek-v3", "--cluster", "dgx-h100", "--devices", "1024", "--global-batch", "8192",
                                    "--seq-length", "4096", "--axis", "token_dispatcher=alltoall,deepep,allgather", "--axis",
                                    "overlap_experts=false,true", "--jobs", "1", *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        said = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, said + err

    def test_an_interrupted_search_prints_what_it_has_found(self):
        one = "tensor=1,pipeline=16,context=1,expert=64,micro_batch_size=1,zero_stage=1"
        code, out, err = self.interrupted("--why", one)
        self.assertEqual(code, 130, err)
        self.assertRegex(out, rf"why {one}: [\d,]+ candidates\n")
        self.assertRegex(err, r"tandem: searching: [\d,]+ of [\d,]+ groups looked at, bounds of [\d,]+ sharpened, \d+ layouts simulated, 1\d\.\d s\n")
        self.assertRegex(out, r"interrupted: [\d,]+ of [\d,]+ groups looked at; a better layout may be among the others\n")
        self.assertIn("--keep FILE", err)
        self.assertNotIn("keeping", err)
        self.assertNotIn("--events N", out)
        code, out, err = self.interrupted("--json")
        answer = json.loads(out)
        for row in answer["estimated"]:
            self.assertLessEqual(row["needed_bytes"] or 0, answer["device_memory_bytes"])
        file = self.path("kept.json")
        code, out, err = self.interrupted("--pareto", "--json", "--keep", file)
        self.assertEqual(code, 130, err)
        self.assertIn(f"{file} keeps what is known", err)
        answer = json.loads(out)
        self.assertEqual((answer["interrupted"], answer["complete"]), (True, False))
        space = answer["spaces"][0]
        self.assertEqual(sum(space["counts"].values()), space["candidates"])
        self.assertGreater(space["counts"]["left"], 0)

    def refused(self, *arguments):
        code, out, err = run("search", *arguments)
        self.assertEqual((code, out), (3, ""), err)
        self.assertEqual(err.count("\n"), 1, err)
        return err

    def test_files_of_other_searches_are_refused_by_name(self):
        plan = self.small()
        a, b = self.shards(plan, 2)
        self.assertIn("shard = 1/2: no file has it; run --shard 1/2", self.refused(plan, *AXES, "--merge", a))
        self.assertIn(f"{a}: shard = 0/2: {a} has it, too", self.refused(plan, *AXES, "--merge", a, b, a))
        self.assertIn(f"{a}: axes.parallel.zero_stage", self.refused(plan, *AXES[:4], "--axis", "context=1", "--merge", a, b))
        self.assertIn(f"{a}: any_stack = false: this search has true", self.refused(plan, *AXES, "--any-stack", "--merge", a, b))
        other = self.folder.plan(changed(SMALL, **{"training.global_batch_size": 16}), "other.json")
        self.assertIn(f"{a}: plan.training.global_batch_size = 8: this search has 16", self.refused(other, *AXES, "--merge", a, b))
        self.assertIn(f"{a}: shard = 0/2: this search is shard 0/1", self.refused(plan, *AXES, "--keep", a))
        text = pathlib.Path(b).read_text(encoding="utf-8")
        for damaged, said in ((text.replace('"shard":1', '"shard":0'), "checksum"), (text[:-9], "cut off"), ("{}", "no file of")):
            c = self.folder.file("c.json", damaged)
            self.assertIn(said, self.refused(plan, *AXES, "--merge", a, c))
        code, _, err = run("search", plan, *AXES, "--shard", "0/2")
        self.assertEqual(code, 2, err)
        for shard in ("2/2", "-1/2", "1", "a/b", "0/0"):
            self.assertIn("is no shard", self.refused(plan, *AXES, "--keep", self.path("x"), f"--shard={shard}"))

    def test_shards_of_different_numbers_do_not_mix(self):
        plan = self.small()
        a, rest = self.shards(plan, 2)
        moved = self.path("of-two.json")
        pathlib.Path(a).rename(moved)
        pathlib.Path(rest).unlink()
        b = self.shards(plan, 3)[1]
        self.assertIn(f"{b}: shards = 3: {moved} is one of 2", self.refused(plan, *AXES, "--merge", moved, b))


if __name__ == "__main__":
    tandem.main()

#!/usr/bin/env python3
"""What training reads: texts and their blends, evaluations, and data that is refused or told of."""
import struct

import tandem
from tandem import SMALL, SOURCE, TEXT, WithFolder, changed, run, tandem_json

ONE = changed(SMALL, **{"parallel": {"tensor": 1}, "cluster.devices": 1})


class Data(WithFolder):
    def test_evaluations_follow_their_steps_and_change_no_loss(self):
        plan, train = self.folder.plan(SMALL), ("--data", TEXT, "--steps", 5)
        other = self.folder.file("other.txt", TEXT.read_bytes()[:20000])
        evaluate = ("--eval-every", 2, "--eval-steps", 3)
        beside = tandem_json("train", plan, *train, *evaluate, "--eval-data", other)
        self.assertEqual([e["step"] for e in beside["evaluations"]], [1, 3])
        for e in beside["evaluations"]:
            self.assertEqual(set(e), {"step", "loss"})
            self.assertLess(abs(e["loss"] - 5.5), 0.5)
        plain = tandem_json("train", plan, *train)
        self.assertEqual(plain["evaluations"], [])
        self.assertEqual([s["loss"] for s in beside["steps"]], [s["loss"] for s in plain["steps"]])
        kept_back = tandem_json("train", plan, *train, *evaluate)
        self.assertNotEqual([s["loss"] for s in kept_back["steps"]], [s["loss"] for s in plain["steps"]])
        code, _, err = run("train", plan, *train, *evaluate)
        self.assertEqual((code, err.count("\nevaluation after step ")), (0, 2))

    def test_texts_are_blended_by_weights_or_lengths(self):
        plan = self.folder.plan(changed(ONE, **{"training.dropout": {"hidden": 0, "attention": 0}}))
        text = TEXT.read_bytes()
        a, b = self.folder.path / "a:1.txt", self.folder.path / "b.txt"
        a.write_bytes(text[:30000])
        b.write_bytes(b"z" * 10000)

        def losses(*data, more=()):
            names = [word for path in data for word in ("--data", path)]
            return [s["loss"] for s in tandem_json("train", plan, *names, "--steps", 12, *more)["steps"]]

        alone = losses(a)
        self.assertEqual(losses(f"7:{a}"), alone)  # one text is no blend
        self.assertEqual(losses(f"0.75:{a}", f"0.25:{b}"), losses(f"3:{a}", f"1:{b}"))  # only ratios count
        self.assertEqual(losses(a, b), losses(f"3:{a}", f"1:{b}"))  # three times as long
        # One letter again and again is learned at once: the more of it, the lower the loss.
        few, many = losses(f"9:{a}", f"1:{b}"), losses(f"1:{a}", f"9:{b}")
        self.assertGreater(alone[-1], few[-1])
        self.assertGreater(few[-1], many[-1])

        kept = self.folder.path / "kept.safetensors"
        losses(f"9:{a}", f"1:{b}", more=("--save", kept))
        _, _, err = run("train", plan, "--data", f"1:{a}", "--data", f"9:{b}", "--steps", 13, "--resume", kept)
        self.assertIn("was trained on other tokens than those of", err)
        for data, reason in (((f"1:{a}", b), "has no weight"), ((f"0:{a}", f"1:{b}"), "above 0"), ((f"nan:{a}", f"1:{b}"), "above 0")):
            code, _, err = run("train", plan, *[word for path in data for word in ("--data", path)])
            self.assertEqual(code, 3)
            self.assertIn(reason, err)

    def test_tokens_of_the_model_that_cannot_occur_are_told(self):
        small, large = self.folder.plan(ONE), self.folder.plan(changed(ONE, **{"model.vocab_size": 1000}), "large.json")
        kept = self.folder.path / "kept.safetensors"
        said = f"{TEXT}: is read as bytes: 256 of the model's 1,000 tokens occur; --tokenizer reads texts"
        self.assertIn(said, run("train", large, "--data", TEXT, "--steps", 1, "--save", kept)[2])
        self.assertIn(said, run("evaluate", large, "--data", TEXT, "--checkpoint", kept)[2])
        self.assertNotIn("read as bytes", run("train", small, "--data", TEXT, "--steps", 1)[2])
        tokenizer = SOURCE / "tests/fixtures/tokenizers/gpt2.json"
        err = run("train", large, "--data", TEXT, "--tokenizer", tokenizer, "--steps", 2, "--resume", kept)[2]
        self.assertNotIn("read as bytes", err)
        told = f"{tokenizer}: has 420 tokens, and the model 1,000 (model.vocab_size): the others never occur"
        self.assertIn(told, err)
        self.assertIn(told, run("evaluate", large, "--data", TEXT, "--tokenizer", tokenizer, "--checkpoint", kept)[2])
        close = self.folder.plan(changed(ONE, **{"model.vocab_size": 466}), "close.json")  # 420 are nine tenths of it
        self.assertNotIn("never occur", run("train", close, "--data", TEXT, "--tokenizer", tokenizer, "--steps", 1)[2])
        self.assertIn("another part of it, or with another --tokenizer", err)

    def test_an_interval_that_holds_no_evaluation_is_told(self):
        _, _, err = run("train", self.folder.plan(ONE), "--data", TEXT, "--steps", 2, "--eval-every", 5)
        self.assertIn("--eval-every 5: no evaluation falls into steps 0 to 1", err)

    def test_a_finished_checkpoint_is_evaluated_without_a_further_step(self):
        plan, saved = self.folder.plan(SMALL), self.path("done.safetensors")
        other = self.folder.file("other.txt", TEXT.read_bytes()[:20000])
        train = ("--data", TEXT, "--steps", 4)
        evaluate = ("--eval-every", 4, "--eval-steps", 2, "--eval-data", other)
        trained = tandem_json("train", plan, *train, *evaluate, "--save", saved)
        alone = tandem_json("train", plan, *train, *evaluate, "--resume", saved)
        self.assertEqual((alone["steps"], len(alone["evaluations"])), ([], 1))
        self.assertEqual(alone["evaluations"], trained["evaluations"])
        rates = ("step_time_s", "tokens_per_s", "model_flops_per_s")  # there is no step that they could be of
        self.assertEqual([alone[key] for key in rates], [None, None, None])
        self.assertTrue(all(trained[key] > 0 for key in rates))
        self.assertFalse(alone["interrupted"])
        code, _, err = run("train", plan, *train, "--resume", saved)
        self.assertEqual(code, 3)
        self.assertIn("`tandem evaluate` evaluates the checkpoint", err)

    def test_the_evaluations_data_can_be_bad_too(self):
        plan, missing = self.folder.plan(SMALL), self.path("missing.txt")
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 1, "--eval-every", 1, "--eval-data", missing)
        self.assertEqual(code, 3)
        self.assertIn(missing, err)

    def test_bytes_are_not_evaluated_beside_token_ids_nor_ids_beside_bytes(self):
        ids = [7 * i % 200 for i in range(400)]
        header = struct.pack("<3I", 20240520, 1, len(ids)).ljust(1024, b"\0")  # as llm.c writes GPT-2's tokens
        tokens = self.folder.file("ids.bin", header + struct.pack(f"<{len(ids)}H", *ids))
        evaluate = ("train", self.folder.plan(SMALL), "--steps", 1, "--eval-every", 1)
        self.assertEqual(run(*evaluate, "--data", tokens, "--eval-data", tokens)[0], 0)
        for data, other, said in ((tokens, TEXT, "holds a text of bytes, and"), (TEXT, tokens, "holds token ids, and")):
            code, out, err = run(*evaluate, "--data", data, "--eval-data", other)
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn(f"{other}: --eval-data: {said} {data}", err)

    def test_bad_data_exits_3(self):
        plan = self.folder.plan(SMALL)
        for data in (self.path("missing.txt"), self.folder.file("short.txt", "abc"), str(self.folder.path)):
            code, out, err = run("train", plan, "--data", data, "--steps", 1)
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn(data, err)
        self.assertIn("/dev/zero: data: is no plain file", run("train", plan, "--data", "/dev/zero", "--steps", 1)[2])

    def test_a_vocabulary_smaller_than_the_data_is_refused_by_field(self):
        plan = self.folder.plan(changed(SMALL, **{"model.vocab_size": 100}))
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 1)
        self.assertEqual(code, 3)
        self.assertIn("model.vocab_size", err)

    def test_a_text_that_is_read_several_times_is_told_beforehand(self):
        length, batch = ONE["training"]["seq_length"], ONE["training"]["global_batch_size"]
        short = self.folder.file("short.txt", TEXT.read_bytes()[:10 * length + 1])  # ten sequences
        steps = 5
        code, out, err = run("train", self.folder.plan(ONE), "--data", short, "--steps", steps)
        self.assertEqual(code, 0)
        self.assertIn(f"short.txt: has 10 sequences of {length} tokens: the run reads it {steps * batch / 10:.2f} times", err)
        self.assertRegex(out, rf"epochs of the data +{steps * batch / 10:g}\n")
        self.assertEqual(tandem_json("train", self.folder.plan(ONE), "--data", short, "--steps", steps)["epochs"], steps * batch / 10)
        code, out, err = run("train", self.folder.plan(ONE), "--data", short, "--steps", 1)
        self.assertNotIn("the run reads it", err)  # eight of ten
        other, kept = self.folder.file("other.txt", TEXT.read_bytes()[length:11 * length + 1]), self.path("kept")
        tandem_json("train", self.folder.plan(ONE), "--data", short, "--steps", 2, "--save", kept)
        for text, steps_read in ((short, 5), (other, 3)):  # the two steps behind read the first text
            told = f": has 10 sequences of {length} tokens: the run reads it {steps_read * batch / 10:.2f} times"
            self.assertIn(told, run("train", self.folder.plan(ONE), "--data", text, "--steps", 5, "--resume", kept)[2])
        evaluated = self.folder.file("evaluated.txt", TEXT.read_bytes()[:10 * length + 1])
        train = ("train", self.folder.plan(ONE), "--data", TEXT, "--steps", 1, "--eval-data", evaluated, "--eval-every", 1, "--eval-steps")
        told = f"evaluated.txt: has 10 sequences of {length} tokens: an evaluation of --eval-steps 2 reads it {2 * batch / 10:.2f} times"
        self.assertIn(told, run(*train, 2)[2])
        self.assertNotIn("an evaluation of", run(*train, 1)[2])
        self.assertIn("trained 1 step,", out)


if __name__ == "__main__":
    tandem.main()

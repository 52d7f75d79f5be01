#!/usr/bin/env python3
"""`train` on prompts with completions and on conversations: which tokens it counts, layouts, separate documents, and what is refused."""
import json
import re
import sys

import tandem
from tandem import SMALL, SOURCE, WithFolder, changed, run, tandem_json

FIXTURES = SOURCE / "tests" / "fixtures"
CHATS = json.loads((FIXTURES / "chats.json").read_text())
ONE = changed(SMALL, **{"model.vocab_size": 440, "training.seq_length": 64, "training.steps": 2, "parallel": {}, "cluster.devices": 1})
PAIRS = [{"prompt": f"Who is number {i}?\nIt is", "completion": f" the man {'and the Word ' * (i % 4)}{i}"} for i in range(24)]


class Chats(WithFolder):
    def setUp(self):
        super().setUp()
        self.tokenizer = self.path("tokenizer.json")
        chatml = CHATS["templates"][0]
        document = json.loads((FIXTURES / "tokenizers" / (chatml["tokenizer"] + ".json")).read_text())
        document["added_tokens"] = chatml["added_tokens"]
        self.folder.file("tokenizer.json", json.dumps(document))
        self.folder.file("tokenizer_config.json", json.dumps({"eos_token": "<|endoftext|>"}))

    def lines(self, objects, name="lines.jsonl"):
        return self.folder.file(name, "".join(json.dumps(o) + "\n" for o in objects))

    def train(self, plan, data, *more):
        code, out, messages = run("train", self.folder.plan(plan), "--data", data, "--tokenizer", self.tokenizer, "--json", *more)
        self.assertEqual(code, 0, messages)
        return [step["loss"] for step in json.loads(out)["steps"]], messages

    def refused(self, data, *more, plan=ONE):
        code, _, messages = run("train", self.folder.plan(plan), "--data", data, *more)
        self.assertEqual(code, 3, messages)
        return messages

    def test_every_layout_counts_the_same_targets(self):
        data = self.lines(PAIRS)
        one, _ = self.train(ONE, data)
        for parallel in ({"data": 2}, {"tensor": 2, "data": 2, "zero_stage": 3}, {"pipeline": 2}):
            ranks = 2 if len(parallel) == 1 else 4
            losses, _ = self.train(changed(ONE, parallel=parallel, **{"cluster.devices": ranks}), data)
            for a, b in zip(one, losses):
                self.assertAlmostEqual(a, b, delta=1e-4)

    def test_prompts_are_counted_only_where_they_should(self):
        data = self.lines(PAIRS)
        completions, _ = self.train(ONE, data)
        everything, _ = self.train(ONE, data, "--loss-on", "all")
        self.assertNotEqual(completions[0], everything[0])
        # A completion alone has no prompt to leave out.
        alone = self.lines([{"prompt": "", "completion": p["prompt"] + p["completion"]} for p in PAIRS], "alone.jsonl")
        self.assertEqual(self.train(ONE, alone)[0], everything)

    def test_completions_end_with_the_models_token_where_the_tokenizer_names_none(self):
        data = self.lines(PAIRS)
        named, _ = self.train(ONE, data)
        (self.folder.path / "tokenizer_config.json").unlink()
        without, messages = self.train(ONE, data)
        self.assertIn("add it to tokenizer_config.json", messages)
        self.assertNotEqual(without, named)
        tokens = json.loads((self.folder.path / "tokenizer.json").read_text())["added_tokens"]
        end = next(token["id"] for token in tokens if token["content"] == "<|endoftext|>")
        for ids, expected in (([end, end], without), (end, named)):  # of two, none is the end
            self.folder.file("config.json", json.dumps({"eos_token_id": ids}))
            self.assertEqual(self.train(ONE, data)[0], expected)
        for wrong in (-1, 99999, 2 ** 32 + 1):
            self.folder.file("config.json", json.dumps({"eos_token_id": wrong}))
            self.assertIn(f"config.json: eos_token_id = {wrong}: is no token", self.refused(data, "--tokenizer", self.tokenizer))

    def test_conversations_are_trained_and_evaluated(self):
        chats = [{"messages": chat["messages"]} for chat in CHATS["templates"][0]["chats"] for _ in range(8)]
        data = self.lines(chats)
        plan = changed(ONE, **{"training.seq_length": 96})
        losses, _ = self.train(plan, data, "--chat-template", "chatml", "--eval-every", "1")
        self.assertEqual(len(losses), 2)

    def test_an_assistant_that_has_weight_0_is_read_and_not_trained(self):
        turns = CHATS["templates"][0]["chats"][1]["messages"]  # user, assistant, user, assistant
        plan, template = changed(ONE, **{"training.seq_length": 96}), ("--chat-template", "chatml")
        def first_loss(messages, *more):
            return self.train(plan, self.lines(8 * [{"messages": messages}]), *template, *more)[0][0]
        weighted = [*turns[:1], {**turns[1], "weight": 0}, turns[2], {**turns[3], "weight": 1}]
        as_prompt = self.lines(8 * [{"prompt": turns[:3], "completion": turns[3:]}], "prompt.jsonl")
        self.assertEqual(first_loss(weighted), self.train(plan, as_prompt, *template)[0][0])
        self.assertNotEqual(first_loss(weighted), first_loss(turns))

    def test_separate_documents_share_sequences(self):
        data = self.lines(PAIRS)
        long = {"training.seq_length": 256, "training.micro_batch_size": 1, "model.max_position_embeddings": 256}
        def separate(batch):
            return changed(ONE, **long, **{"training.documents": "separate", "training.global_batch_size": batch})
        count = int(re.search(r"(\d+) sequences of 256 tokens", self.train(separate(1), data)[1]).group(1))
        self.assertLess(count, 12)  # 24 documents
        packed, _ = self.train(separate(count), data)
        alone, _ = self.train(changed(ONE, **long, **{"training.global_batch_size": 24}), data)
        # Both first steps have every document once, with the same weights.
        self.assertAlmostEqual(packed[0], alone[0], delta=1e-6)

    def test_long_documents_are_cut_and_told(self):
        data = self.lines([*PAIRS, {"prompt": "the Word " * 99, "completion": "x"}, {"prompt": "a", "completion": "the Word " * 99}])
        _, messages = self.train(ONE, data)
        self.assertIn("1 of 26 documents is longer than training.seq_length and is cut", messages)
        self.assertIn("1 of 26 documents has no completion within training.seq_length and is left out", messages)

    def test_what_cannot_be_trained_is_refused(self):
        tokenizer = ("--tokenizer", self.tokenizer)
        pairs, chats = self.lines(PAIRS), self.lines([{"messages": CHATS["templates"][0]["chats"][1]["messages"]}], "chats.jsonl")
        text = self.folder.file("text.txt", "In the beginning was the Word " * 99)
        self.assertIn("this tokenizer has the tokens of chatml", self.refused(chats, *tokenizer))
        self.assertIn("<|eot_id|>", self.refused(chats, *tokenizer, "--chat-template", "llama3"))
        self.assertIn("is no template", self.refused(chats, *tokenizer, "--chat-template", "jinja"))
        self.assertIn("the text has no completions", self.refused(text, *tokenizer, "--loss-on", "completion"))
        for data in (text, pairs):
            self.assertIn(f"{data}: --chat-template = chatml: no line has messages", self.refused(data, *tokenizer, "--chat-template", "chatml"))
        self.assertIn("line 2: completion: is missing", self.refused(self.lines([PAIRS[0], {"prompt": "a"}], "half.jsonl"), *tokenizer))
        foreign = self.lines([{"conversations": [{"from": "human", "value": "a"}]}], "sharegpt.jsonl")
        self.assertRegex(self.refused(foreign, *tokenizer), "line 1: text: is missing; give lines with text, with prompt and completion, or with messages")
        mixed = self.lines([{"text": "In the beginning"}, {"messages": []}], "mixed.jsonl")
        self.assertIn("line 2: text: is missing; every line has what the first has", self.refused(mixed, *tokenizer))
        self.assertIn("line 1: completion: is missing; give one beside prompt", self.refused(self.lines([{"prompt": "a"}]), *tokenizer))
        self.assertNotIn("--key", self.refused(foreign, *tokenizer) + self.refused(mixed, *tokenizer))
        self.assertIn("line 1: messages = []: is empty", self.refused(self.lines([{"messages": [], **PAIRS[0]}], "empty.jsonl"), *tokenizer))
        self.assertIn("no completion that begins within", self.refused(self.lines([{"prompt": "a" * 999, "completion": "b"}], "long.jsonl"), *tokenizer))
        bert = changed(ONE, **{"model.family": "bert"})
        self.assertIn("not BERT or T5", self.refused(pairs, *tokenizer, plan=bert))
        code, _, messages = run("train", self.folder.plan(ONE), "--data", pairs, "--loss-on", "all")
        self.assertNotEqual(code, 0)
        self.assertIn("--tokenizer", messages)

    def test_models_that_cannot_keep_documents_apart_are_refused(self):
        plan = changed(ONE, **{"training.documents": "separate", "model.family": "bert"})
        code, _, messages = run("train", self.folder.plan(plan), "--data", self.lines(PAIRS), "--tokenizer", self.tokenizer)
        self.assertEqual(code, 4, messages)
        self.assertIn("training.documents = separate", messages)

    def test_a_prediction_says_what_it_does_not_know(self):
        plan = self.folder.plan(changed(ONE, **{"training.documents": "separate"}))
        joined = tandem_json("simulate", self.folder.plan(ONE, "joined.json"))
        separate = tandem_json("simulate", plan)
        self.assertEqual(separate["step_time_s"], joined["step_time_s"])
        self.assertTrue(any("training.documents" in note for note in separate["notes"]))


if __name__ == "__main__":
    missing = "without ICU" in run("tokenize", tandem.TEXT, "--tokenizer", FIXTURES / "tokenizers" / "gpt2.json", "--out", "/dev/null")[2]
    sys.exit(77) if missing else tandem.main()

#!/usr/bin/env python3
"""Writes tokenizers as files of other libraries (tests/fixtures/tokenizer_files), and the ids that these libraries make of texts.

Usage: pip install tokenizers transformers sentencepiece tiktoken; other_files.py OUT. With --fuzz DRIVER COUNT it compares COUNT
random texts per tokenizer instead (see fixtures.py). Made with transformers 5.24, sentencepiece 0.2.3 and tiktoken 0.14. The trainer of
WordPiece breaks ties at random, so each run gives other vocabularies for bert.
"""
import base64
import io
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import sentencepiece
import tiktoken
import tiktoken.load
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from tiktoken_ext import openai_public
from transformers import BertTokenizer, GPT2Tokenizer, Qwen2Tokenizer

from fixtures import CORPUS, LLAMA3, SAMPLES, random_text

TEXTS = SAMPLES + ["Ünïcödé naïve ÀÉÎ İi ẞß", "the Testament of " + "antidisestablishmentarianism" * 9, "\n", "aaaaaaa aaaaa aaa", "the\u00a0Word\u3000the 的中文字",
                   "[CLS] the [SEP] [cls]", "<|begin_of_text|>a<|eot_id|><|start_header_id|>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def corpus():
    """Lines of the corpus, and the texts often enough for their characters to be learnt."""
    return open(CORPUS, encoding="utf-8").read(150_000).splitlines() + [t for t in TEXTS if "\0" not in t] * 3


def write(folder, name, content):
    path = pathlib.Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def byte_level(specials, size=420):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size, special_tokens=specials, initial_alphabet=alphabet,
                                                                show_progress=False))
    return json.loads(tokenizer.to_str())["model"]


def vocab_and_merges(folder, specials, config=None, names=("vocab.json", "merges.txt")):
    model = byte_level(specials)
    vocab = model["vocab"]
    if specials == ["<|endoftext|>"]:  # GPT-2 has it last
        vocab = {k: v - 1 for k, v in vocab.items() if v} | {specials[0]: len(vocab) - 1}
    write(folder, names[0], json.dumps(vocab, ensure_ascii=False))
    write(folder, names[1], "#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in model["merges"]))
    if config:
        write(folder, "tokenizer_config.json", json.dumps(config))


def gpt2_more(folder):
    """A tokenizer that was changed after its training, as older versions of transformers write it."""
    vocab_and_merges(folder, ["<|endoftext|>"], {"add_bos_token": True, "add_prefix_space": True, "bos_token": "<|begin_of_text|>"},
                     ("gpt2-vocab.json", "gpt2-merges.txt"))
    write(folder, "added_tokens.json", json.dumps({"<mask>": 420, "LORD": 421}))
    write(folder, "special_tokens_map.json", json.dumps({"eos_token": {"content": "</s>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}}))


def vocab_txt(folder, lower, config=None):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=700, special_tokens=BERT, show_progress=False))
    vocab = tokenizer.get_vocab()
    write(folder, "vocab.txt", "".join(token + "\n" for token in sorted(vocab, key=vocab.get)))
    if config:
        write(folder, "tokenizer_config.json", json.dumps(config))


def sentences(folder, name, **options):
    rules = "FB01\t66 69\t# fi\n9\t20\t# tab\n3000\t20\t# wide space\n65 301\tE9\t# e acute\n"
    before, model = os.getcwd(), io.BytesIO()
    with tempfile.TemporaryDirectory() as temporary:  # the model remembers the name of the rules' file
        write(temporary, "rules.tsv", rules)
        os.chdir(temporary)
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=model, minloglevel=2, num_threads=1,
                                                 hard_vocab_limit=False, **options)
        os.chdir(before)
    write(folder, name, model.getvalue())


def llama2(folder):
    sentences(folder, "tokenizer.model", model_type="bpe", vocab_size=600, byte_fallback=True, normalization_rule_name="identity",
              remove_extra_whitespaces=False, split_digits=True, character_coverage=0.98)


def t5(folder):
    sentences(folder, "spiece.model", model_type="unigram", vocab_size=500, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=0.98,
              normalization_rule_tsv="rules.tsv")


def from_byte_level():
    """Bytes by their characters in GPT-2's vocab.json."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(other)}


def ranks():
    model, table = byte_level([], 460), from_byte_level()
    of = lambda text: bytes(table[c] for c in text)
    tokens = list(dict.fromkeys([bytes([b]) for b in table.values()] + [of(a + b) for a, b in model["merges"]]))
    # No merges lead to the first two; the others can be made in several ways.
    for more in (b" Testament", "的中文字".encode(), b"aa", b"aaa", b"aaaa"):
        if more not in tokens:
            tokens.append(more)
    return {token: i for i, token in enumerate(tokens)}


def llama3_specials(first):
    """meta-llama/llama3: llama/tokenizer.py of the released models."""
    r = ["<|reserved_special_token_%d|>" % i for i in range(251)]
    names = ["<|begin_of_text|>", "<|end_of_text|>", *r[:4], "<|start_header_id|>", "<|end_header_id|>", r[4], "<|eot_id|>", *r[5:]]
    return {name: first + i for i, name in enumerate(names)}


def write_ranks(folder, name):
    write(folder, name, "".join("%s %d\n" % (base64.b64encode(t).decode(), r) for t, r in ranks().items()))


def load_llama3(folder):
    table = tiktoken.load.load_tiktoken_bpe(os.path.join(folder, "tokenizer.model"))
    specials = llama3_specials(len(table))
    encoding = tiktoken.Encoding("llama3", pat_str=LLAMA3, mergeable_ranks=table, special_tokens=specials)
    return lambda text: [len(table)] + encoding.encode(text, allowed_special="all")


def load_public(encoding, file):
    """An encoding of tiktoken with the ranks of a file in place of its own."""
    def load(folder):
        openai_public.load_tiktoken_bpe = lambda *_, **__: tiktoken.load.load_tiktoken_bpe(os.path.join(folder, file))
        made = tiktoken.Encoding(**encoding())
        return lambda text: made.encode(text, allowed_special="all")
    return load


def load_sentences(name, before=(), behind=()):
    def load(folder):
        processor = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, name))
        return lambda text: [*before, *processor.encode(text), *behind]
    return load


def load_hub(kind):
    def load(folder):
        with tempfile.TemporaryDirectory() as copy:  # transformers knows the files by fixed names
            for name in os.listdir(folder):
                shutil.copy(os.path.join(folder, name), os.path.join(copy, name.removeprefix("gpt2-")))
            tokenizer = kind.from_pretrained(copy)
        return lambda text: tokenizer(text)["input_ids"]
    return load


def kinds():
    """Name: what writes the files into a folder, and what gives a function from text to ids for the folder."""
    return {
        "gpt2": (lambda f: vocab_and_merges(f, ["<|endoftext|>"]), load_hub(GPT2Tokenizer)),
        "gpt2-more": (gpt2_more, load_hub(GPT2Tokenizer)),
        "qwen2": (lambda f: vocab_and_merges(f, ["<|endoftext|>"], {
            "tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>",
            "added_tokens_decoder": {str(419 + i): {"content": c, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
                                     for i, c in enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])}}), load_hub(Qwen2Tokenizer)),
        "bert": (lambda f: vocab_txt(f, True), load_hub(BertTokenizer)),
        "bert-cased": (lambda f: vocab_txt(f, False, {"do_lower_case": False}), load_hub(BertTokenizer)),
        "bert-accents": (lambda f: vocab_txt(f, True, {"strip_accents": False, "tokenize_chinese_chars": False}), load_hub(BertTokenizer)),
        "llama2": (llama2, load_sentences("tokenizer.model", before=[1])),
        "t5": (t5, load_sentences("spiece.model", behind=[1])),
        "llama3": (lambda f: write_ranks(f, "tokenizer.model"), load_llama3),
        "cl100k": (lambda f: write_ranks(f, "cl100k_base.tiktoken"), load_public(openai_public.cl100k_base, "cl100k_base.tiktoken")),
        "o200k": (lambda f: write_ranks(f, "o200k_base.tiktoken"), load_public(openai_public.o200k_base, "o200k_base.tiktoken")),
    }


def fuzz(driver, count):
    rng, bad = random.Random(11), 0
    for name, (make, load) in kinds().items():
        with tempfile.TemporaryDirectory() as folder:
            make(folder)
            texts = TEXTS + [random_text(rng) for _ in range(count)]
            encode = load(folder)
            expected = [" ".join(map(str, encode(t))) for t in texts]
            write(folder, "texts", "".join(json.dumps(t) + "\n" for t in texts))
            got = subprocess.run([driver, folder, os.path.join(folder, "texts")], capture_output=True, text=True).stdout.split("\n")[:-1]
        wrong = [(t, e, g) for t, e, g in zip(texts, expected, got) if e != g] if len(got) == len(texts) else [got[:2]]
        print(name, len(texts), "texts,", len(wrong), "differ", flush=True)
        for w in wrong[:4]:
            print("   ", ascii(w))
        bad += len(wrong)
    return 1 if bad else 0


def main():
    if sys.argv[1] == "--fuzz":
        return fuzz(sys.argv[2], int(sys.argv[3]))
    ids = {}
    for name, (make, load) in kinds().items():
        folder = os.path.join(sys.argv[1], name)
        make(folder)
        encode = load(folder)
        ids[name] = [encode(text) for text in TEXTS]
    write(sys.argv[1], "ids.json", json.dumps({"texts": TEXTS, "ids": ids}, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes the tokenizers of tests/fixtures/tokenizers, and what the library `tokenizers` (0.23) makes of texts with them.

Usage: pip install tokenizers; fixtures.py OUT. With --fuzz DRIVER COUNT it compares COUNT random texts per tokenizer instead:
`DRIVER tokenizer.json TEXTS` prints the ids of each line of TEXTS, which is a JSON string.
"""
import base64
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CORPUS = os.path.join(ROOT, "experiments/data/kjv-new-testament.txt")
N, P = normalizers, pre_tokenizers
# As the tokenizer.json files on the Hugging Face hub have them.
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
DEEPSEEK3 = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
             r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+"]
DEEPSEEK1 = [r"[\r\n]", r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
             r"\s+$", "[一-龥ࠀ-一가-퟿]+"]
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def special(*names):
    return [AddedToken(name, special=True, normalized=False) for name in names]


def template(single, *tokens):
    return lambda t: processors.TemplateProcessing(single=single, pair=single + " $B", special_tokens=[(k, t.token_to_id(k)) for k in tokens])


def byte_level(pattern, **more):
    steps = [P.Split(Regex(p), "isolated") for p in ([pattern] if isinstance(pattern, str) else pattern)]
    steps.append(P.ByteLevel(add_prefix_space=False, use_regex=False))
    return dict(pre=P.Sequence(steps), alphabet=P.ByteLevel.alphabet(), **more)


def bpe(**options):
    return models.BPE(**options)


def charsmap(rules):
    """A table of replacements as sentencepiece's Precompiled has it: a darts-clone trie of the keys, then their replacements."""
    text, values = b"", {}
    for key, new in sorted(rules.items()):
        values[key.encode()] = len(text)
        text += new.encode() + b"\0"
    units, used = {}, {0}
    def place(node, keys):
        """Puts the children of the node that `keys` share; the node's unit gets the distance to them."""
        labels = sorted({k[0] if k else 0 for k, _ in keys})
        base = next(b for b in range(1, 1 << 20) if all((b ^ l) not in used for l in labels) and (node ^ b) < 1 << 21)
        used.update(base ^ l for l in labels)
        units[node] = units.get(node, 0) | (node ^ base) << 10
        for l in labels:
            inner = [(k[1:], v) for k, v in keys if k and k[0] == l] if l else []
            if l == 0:
                units[base] = 1 << 31 | keys[[k for k, _ in keys].index(b"")][1]
                units[node] |= 1 << 8
            else:
                units[base ^ l] = l
                place(base ^ l, inner)
    place(0, list(values.items()))
    size = (max(units) | 0xFF) + 1
    trie = struct.pack("<%dI" % size, *(units.get(i, 0) for i in range(size)))
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + text).decode()


RULES = {"ﬁ": "fi", "™": "TM", "\t": " ", "\r": " ", "\n": " ", "\r\n": " ", "　": " ", "①": "1", "é": "é", "é": "é", "Å": "Å",
         "\u200b": "", "…": "...", "Ａ": "A", "½": "1⁄2", "가": "가", "👍🏽": "+1"}


def precompiled(rules=None):
    return N.Precompiled(base64.b64decode(charsmap(rules or RULES)))


def kinds():
    """Name: how a tokenizer is made. Models are trained on the corpus, then special tokens are added."""
    meta = lambda scheme, split=True: P.Metaspace(replacement="▁", prepend_scheme=scheme, split=split)
    bytes256 = ["<0x%02X>" % b for b in range(256)]
    llama2 = dict(model=bpe(byte_fallback=True, fuse_unk=True, unk_token="<unk>"), specials=["<unk>", "<s>", "</s>"], extra=bytes256,
                  post=template("<s> $A", "<s>"), size=560)
    return {
        "gpt2": dict(model=bpe(), pre=P.ByteLevel(add_prefix_space=False), alphabet=P.ByteLevel.alphabet(), specials=["<|endoftext|>"],
                     post=lambda t: processors.ByteLevel(trim_offsets=False), size=420),
        "llama3": byte_level(LLAMA3, model=bpe(ignore_merges=True), specials=["<|begin_of_text|>", "<|end_of_text|>"],
                             post=lambda t: processors.Sequence([processors.ByteLevel(trim_offsets=False), template("<|begin_of_text|> $A", "<|begin_of_text|>")(t)])),
        "qwen2": byte_level(QWEN2, model=bpe(), norm=N.NFC(), specials=["<|endoftext|>", "<|im_start|>"]),
        "gpt4o": byte_level(GPT4O, model=bpe(), specials=["<|endoftext|>"]),
        "cl100k": byte_level(CL100K, model=bpe(), specials=["<|endoftext|>"]),
        "deepseek3": byte_level(DEEPSEEK3, model=bpe(), specials=["<｜begin▁of▁sentence｜>"], norm=N.Sequence([]),
                                post=template("<｜begin▁of▁sentence｜> $A", "<｜begin▁of▁sentence｜>")),
        "deepseek1": byte_level(DEEPSEEK1, model=bpe(), specials=["<s>"]),
        "llama2": dict(llama2, norm=N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])),
        "mistral": dict(llama2, pre=meta("first", False)),
        "gemma": dict(llama2, norm=N.Replace(" ", "▁"), pre=P.Split(" ", "merged_with_previous"), added=["\n\n", "▁▁", "▁▁▁"]),
        "bert": dict(model=models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20), norm=N.BertNormalizer(), pre=P.BertPreTokenizer(),
                     specials=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], post=lambda t: processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))),
        "t5": dict(model=models.Unigram(), norm=precompiled(), pre=P.Sequence([P.WhitespaceSplit(), meta("always")]),
                   specials=["<pad>", "</s>", "<unk>"], unk="<unk>", post=template("$A </s>", "</s>")),
        "xlmr": dict(model=models.Unigram(), norm=N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), pre=meta("always"),
                     specials=["<s>", "<unk>", "</s>"], unk="<unk>", masks=[AddedToken("<mask>", lstrip=True, special=True)],
                     post=template("<s> $A </s>", "<s>", "</s>")),
        "roberta": dict(model=bpe(), pre=P.ByteLevel(add_prefix_space=True), alphabet=P.ByteLevel.alphabet(), specials=["<s>", "</s>"],
                        masks=[AddedToken("<mask>", lstrip=True, rstrip=True), AddedToken("ye", single_word=True, normalized=True)],
                        post=lambda t: processors.RobertaProcessing(("</s>", 1), ("<s>", 0))),
        "clip": dict(model=bpe(unk_token="<|endoftext|>", end_of_word_suffix="</w>"), suffix="</w>",
                     norm=N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents(), N.Strip()]),
                     pre=P.Sequence([P.Split(Regex(CLIP), "removed", invert=True), P.Punctuation("merged_with_next")]),
                     specials=["<|endoftext|>"], masks=[AddedToken("LORD", normalized=True)]),
        "words": dict(model=models.WordLevel(unk_token="[UNK]"), norm=N.NFKD(), specials=["[UNK]"],
                      pre=P.Sequence([P.Whitespace(), P.Digits(individual_digits=False), P.Punctuation("contiguous"),
                                      P.Split(Regex(r"(?<=[aeiou])(?:th|er){1,2}?"), "merged_with_previous")])),
        "digits": dict(model=bpe(unk_token="[UNK]", continuing_subword_prefix="##"), prefix="##", specials=["[UNK]"],
                       norm=N.Sequence([N.Strip(right=False), N.BertNormalizer(lowercase=False, strip_accents=True)]),
                       pre=P.Sequence([P.WhitespaceSplit(), P.Digits(individual_digits=True)])),
    }


def trainer(kind):
    common = dict(special_tokens=special(*kind["specials"], *kind.get("extra", [])), show_progress=False, vocab_size=kind.get("size", 360))
    if isinstance(kind["model"], models.BPE):
        more = {k: v for k, v in (("end_of_word_suffix", kind.get("suffix")), ("continuing_subword_prefix", kind.get("prefix"))) if v}
        return trainers.BpeTrainer(initial_alphabet=kind.get("alphabet", []), max_token_length=12, **more, **common)
    if isinstance(kind["model"], models.Unigram):
        return trainers.UnigramTrainer(unk_token=kind["unk"], **common)
    return (trainers.WordPieceTrainer if isinstance(kind["model"], models.WordPiece) else trainers.WordLevelTrainer)(**common)


def make(kind):
    tokenizer = Tokenizer(kind["model"])
    if kind.get("norm"):
        tokenizer.normalizer = kind["norm"]
    # Whole lines would be learnt where nothing cuts the text.
    tokenizer.pre_tokenizer = kind["pre"] if kind.get("pre") and not kind.get("extra") else P.Metaspace()
    with open(CORPUS, encoding="utf-8") as file:
        tokenizer.train_from_iterator(file.read(250_000).splitlines(), trainer(kind))
    tokenizer.pre_tokenizer = kind.get("pre")
    tokenizer.add_tokens(kind.get("added", []))
    tokenizer.add_tokens(kind.get("masks", []))
    if kind.get("extra"):  # the bytes are plain tokens of the model, and so is what marks a space
        return plain_bytes(tokenizer, kind)
    if kind.get("post"):
        tokenizer.post_processor = kind["post"](tokenizer)
    return tokenizer


def plain_bytes(tokenizer, kind):
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.post_processor = kind["post"](tokenizer)
    return tokenizer


SAMPLES = ["", " ", "In the beginning was the Word", "  two  spaces   and\ttabs \n\n lines\r\nCRLF\r\n\r\n", "he's we'll I'M they'VE don't ſ'ſ",
           "12345 3.14 ٣٤٥ ½ Ⅷ 1٢3", "caf\u00e9 cafe\u0301 \u0301\u0301 A\u030a \u212b ﬁ \ufb03 ™ ①", "日本語 ひらがな カタカナ 中文字符 한국어 가나다",
           "😀 👍🏽 👨‍👩‍👧‍👦 🇩🇪 \u200b\u200d\ufe0f", "<|endoftext|>x <s> </s>y  <mask>  z [MASK]<|begin_of_text|><unk>", "ye yet aye ye, LORD Lord lord",
           "Ἐν ἀρχῇ ἦν ὁ λόγος ΣΑΣ Σ", "हिन्दी क्षि ไทย العربية עברית", "\u2028\u2029\u0085\u00a0\u3000\ufeff\u1680x", "a\u0000b\u0007c\u007f\u009f\ufffd",
           "İstanbul ISTANBUL ǅ ß ẞ", "!!!???...---«»“”‘’§¶$€^`|~<>=+", "def f(x):\n    return x  # ok\n\n\n", "▁▁▁ ▁ \n\n\n▁▁x", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx and ababababab",
           "\U0001fae9 \U00010d40 \u1c89 \ua7dc \U0001e5d0 \U00011938", "unassigned \u0378 \U000e0fff private \ue000"]
PIECES = ["'s", "'LL", "'ve", "'ſ", "ſ", "K", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u0085", "\u200b", "<s>", "</s>", "<mask>", "<unk>", "<|endoftext|>",
          "[MASK]", "ye", "LORD", "the", "and", "thou", " th", "er", "aer", "ab", "123", "٣", "½", "é", "e\u0301", "\u0327\u0301", "é", "Å", "ﬁ", "①", "…",
          "日本", "の", "ア", "한", "가", "😀", "👍🏽", "‍", "▁", "▁▁", "Ġ", "!", ",", ".", "-", "_", "/", "\\", "\"", "“", "İ", "Σ", "ǅ", "ß", "中", "A", "Z", "z", "0", "9",
          "<0x0A>", "[UNK]", "##", "</w>", "\u0000", "\ufffd", "\ufeff", "\u0378", "\ue000", "\U00010d40", "\u1c89", "\U0001fae9", "\U000119e1"]


def random_text(rng):
    def one():
        kind = rng.random()
        if kind < 0.55:
            return rng.choice(PIECES)
        if kind < 0.7:
            return chr(rng.randrange(0x20, 0x7f))
        if kind < 0.8:
            return chr(rng.randrange(0x80, 0x3000))
        while True:
            code = rng.randrange(0x110000) if kind > 0.95 else rng.randrange(0x20000)
            if not 0xD800 <= code < 0xE000:
                return chr(code)
    return "".join(one() for _ in range(rng.randrange(1, 14)))


def fuzz(driver, count):
    rng, bad = random.Random(7), 0
    for name, kind in kinds().items():
        tokenizer = make(kind)
        texts = SAMPLES + [random_text(rng) for _ in range(count)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            tokenizer.save(path)
            with open(path + ".texts", "w") as file:
                file.writelines(json.dumps(t) + "\n" for t in texts)
            out = subprocess.run([driver, path, path + ".texts"], capture_output=True, text=True).stdout.splitlines()
        wrong = [(t, e.ids, o) for t, e, o in zip(texts, tokenizer.encode_batch(texts), out) if " ".join(map(str, e.ids)) != o] if len(out) == len(texts) else [out[:2]]
        print(name, len(texts), "texts,", len(wrong), "differ", flush=True)
        for w in wrong[:3]:
            print("   ", ascii(w))
        bad += len(wrong)
    return 1 if bad else 0


def main():
    if sys.argv[1] == "--fuzz":
        return fuzz(sys.argv[2], int(sys.argv[3]))
    ids = {}
    for name, kind in kinds().items():
        tokenizer = make(kind)
        with open(os.path.join(sys.argv[1], name + ".json"), "w", encoding="utf-8") as file:
            file.write(tokenizer.to_str())
        ids[name] = [e.ids for e in tokenizer.encode_batch(SAMPLES)]
    with open(os.path.join(sys.argv[1], "ids.json"), "w", encoding="utf-8") as file:
        json.dump({"texts": SAMPLES, "ids": ids}, file, separators=(",", ":"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Records small tokenizers of Hugging Face's library as references for `galley check tokenizer`.

Usage: python record.py OUT [NAME...]

Each goes to OUT/NAME: tokenizer.json, and cases.json with ids, offsets in characters and decoded text of TEXTS, and of
some pairs of them. Vocabularies are trained on TRAIN, so that they are small. Needs the package tokenizers.
"""
import json
import os
import sys
import traceback

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P
from tokenizers import processors, trainers

TRAIN = [
    "Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse,",
    "the whale the whale the white whale there she blows there there 1851 1234567 3.14 10,000 x = y + 1;",
    "naïve café façade über straße Ünïcödé ÅNGSTRÖM déjà vu — “quotes” ‘single’ … don't can't I'll we've it's",
    "日本語の文章です。東京都に住んでいます。 中文分词测试，你好世界。 한국어 문장 입니다 안녕하세요",
    "Привет, мир! Как дела? مرحبا بالعالم السلام عليكم मोबी डिक नमस्ते दुनिया สวัสดีชาวโลก γειά σου Κόσμε",
    "def f(x):\n\treturn x ** 2  # square\n\n    for i in range(10):\r\n        print(i)\r\n",
] * 3
TEXTS = [
    "Call me Ishmael.", "", " ", "   ", "\n", " a", "a ", "  two  spaces\n\tand tabs", "the white whale, there she blows!",
    "naïve café — “quotes” 日本語 🙂", "don't can't I'll we've IT'S", "12345 6.78e-9 x+=1; 1/2 ½ ² Ⅳ ٣", "\r\n\r\nEND  ",
    "Ünïcödé ÅNGSTRÖM ﬁne ﬀ ½ Å", "e\u0301 n\u0303 a\u0328\u0301 \u1100\u1161\u11a8", "मोबी डिक नमस्ते", "مرحبا بالعالم",
    "Привет, МИР", "한국어 문장 입니다", "สวัสดีชาวโลก", "Κόσμε ΣΊΣΥΦΟΣ", "İstanbul ıI ǅ ẞ", "👩‍👩‍👧‍👦 🇩🇪 👍🏽 x", "a\u00a0b\u2003c\u3000d\u200be",
    "zero\u0000byte \u0007bell \u200d joiner \ufeff bom \ufffd", "[MASK] x[MASK]y  [MASK]  z", "<s> a</s>b <s></s>",
    "hello<tok> <tok>world  <tok>  tok<tok>en", "Hello<TOK> BIG big Bigger <big>", "<|end|>after  <|end|>\n x",
    "a.b,c!d?e;f:g-h_i(j)k[l]m{n}o\"p'q", "....---!!!???", "snake_case camelCase PascalCase kebab-case", "▁a ▁ b▁", "Ġx Ċ",
    "def f(x):\n\treturn x ** 2  # square\n\n    for i in range(10):\r\n", "www.example.com/path?q=1&r=2#top user@mail.org",
    "supercalifragilisticexpialidocious" * 4, "日本語の文章です。東京都", "中文，分词。测试！", "mixed日本語and한국어with русский",
    "a  b   c    d", "\t\ttabs\t", "x\u2028y\u2029z\u0085w", "\u0915\u094d\u0937 \u0e19\u0e49\u0e33", "~`^|\\<>=+*&%$#@", "\U0001f600\U00020000\U000e0001",
]
PAIRS = [("Call me", "Ishmael."), ("", "the whale"), ("a b", ""), ("日本語", "🙂 don't")]
SPECIAL = ["<unk>", "<s>", "</s>"]
LATER = []  # what is done to the tokenizer of a case once it is trained


def then_process(processor):
    LATER.append(lambda t: setattr(t, "post_processor", processor))


def special(*names, **how):
    return [AddedToken(n, special=True, normalized=False, **how) for n in names]


def bpe(size=420, unk="<unk>", tokens=SPECIAL, alphabet=None, train=None, **how):
    t = Tokenizer(models.BPE(unk_token=unk, **how))
    keys = {k: how[k] for k in ("continuing_subword_prefix", "end_of_word_suffix") if k in how}
    return t, trainers.BpeTrainer(vocab_size=size, special_tokens=list(tokens), show_progress=False,
                                  initial_alphabet=alphabet or [], **keys, **(train or {}))


def bytelevel(space=False, regex=True, size=420, post=True, **how):
    t, trainer = bpe(size, None, ["<|end|>"], P.ByteLevel.alphabet(), **how)
    t.pre_tokenizer = P.ByteLevel(add_prefix_space=space, use_regex=regex)
    t.decoder = decoders.ByteLevel()
    if post:
        t.post_processor = processors.ByteLevel(trim_offsets=True)
    return t, trainer


def gpt2():
    return bytelevel()


def gpt2_prefix():
    t, trainer = bytelevel(space=True)
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t, trainer


def roberta():
    t, trainer = bytelevel(space=True, post=False)
    trainer.special_tokens = special("<s>", "</s>", "<unk>") + [AddedToken("<mask>", lstrip=True, special=True)]
    then_process(processors.RobertaProcessing(("</s>", 1), ("<s>", 0), True, True))
    return t, trainer


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split_bytes(pattern, normalizer=None, **how):
    t, trainer = bpe(420, None, ["<|end|>"], P.ByteLevel.alphabet(), **how)
    t.pre_tokenizer = P.Sequence([P.Split(Regex(pattern), "isolated"), P.ByteLevel(False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    return t, trainer


def llama3():
    t, trainer = split_bytes(LLAMA3, ignore_merges=True)
    then_process(processors.Sequence([
        processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single="<|end|> $A", pair="<|end|> $A <|end|>:1 $B:1", special_tokens=[("<|end|>", 0)])]))
    return t, trainer


def qwen2():
    return split_bytes(QWEN2, N.NFC())


def o200k():
    return split_bytes(O200K)


def deepseek():
    t, trainer = split_bytes(LLAMA3)
    t.pre_tokenizer = P.Sequence([
        P.Split(Regex(r"\p{N}{1,3}"), "isolated"), P.Split(Regex(r"[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
        P.Split(Regex(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
                      r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
        P.ByteLevel(False, use_regex=False)])
    return t, trainer


def digits_bytes():
    t, trainer = bytelevel(post=False)
    t.pre_tokenizer = P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(False)])
    return t, trainer


def fallback(prepend=True, **how):
    tokens = [AddedToken(x, special=True, normalized=False) for x in SPECIAL] + [
        f"<0x{i:02X}>" for i in range(256)]
    t, trainer = bpe(620, "<unk>", tokens, byte_fallback=True, fuse_unk=True, **how)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    return t, trainer


def llama():
    t, trainer = fallback()
    t.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
    then_process(processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]))
    return t, trainer


def metaspace(scheme, split=True):
    def make():
        t, trainer = fallback()
        t.pre_tokenizer = P.Metaspace("▁", prepend_scheme=scheme, split=split)
        t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Metaspace("▁", prepend_scheme=scheme, split=split)])
        return t, trainer
    return make


def gemma():
    t, trainer = fallback()
    t.normalizer = N.Replace(" ", "▁")
    t.pre_tokenizer = P.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return t, trainer


def unigram(size=400, unk="<unk>", **how):
    return Tokenizer(models.Unigram()), trainers.UnigramTrainer(
        vocab_size=size, unk_token=unk, special_tokens=[unk, "<s>", "</s>"], show_progress=False, **how)


def t5():
    t, trainer = unigram()
    t.normalizer = N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = P.Sequence([P.WhitespaceSplit(), P.Metaspace("▁", prepend_scheme="always")])
    t.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    then_process(processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]))
    return t, trainer


def albert():
    t, trainer = unigram()
    t.normalizer = N.Sequence([N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(),
                               N.Strip()])
    t.pre_tokenizer = P.Metaspace("▁", prepend_scheme="first")
    t.decoder = decoders.Metaspace("▁", prepend_scheme="first")
    return t, trainer


def unigram_bytes():
    t, trainer = unigram(300)
    t.pre_tokenizer = P.Metaspace("▁", prepend_scheme="never", split=False)
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", prepend_scheme="never")])

    def after(t):
        d = json.loads(t.to_str())
        d["model"]["byte_fallback"] = True
        d["model"]["vocab"] += [[f"<0x{i:02X}>", -20.0] for i in range(256)]
        return Tokenizer.from_str(json.dumps(d))
    LATER.append(after)
    return t, trainer


def wordpiece(**how):
    def make(unk="[UNK]"):
        t = Tokenizer(models.WordPiece(unk_token=unk, max_input_chars_per_word=how.get("most", 100)))
        t.normalizer = N.BertNormalizer(**how.get("normalizer", {}))
        t.pre_tokenizer = how.get("pre") or P.BertPreTokenizer()
        t.decoder = decoders.WordPiece(prefix="##", cleanup=how.get("cleanup", True))
        trainer = trainers.WordPieceTrainer(vocab_size=380, show_progress=False, special_tokens=[
            "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
        then_process(processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))
        return t, trainer
    return make


def suffix():
    t, trainer = bpe(400, "<unk>", SPECIAL, end_of_word_suffix="</w>")
    t.normalizer = N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()])
    t.pre_tokenizer = P.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True)
    t.decoder = decoders.BPEDecoder("</w>")
    return t, trainer


def continuing():
    t, trainer = bpe(400, "<unk>", SPECIAL, continuing_subword_prefix="##")
    t.pre_tokenizer = P.Whitespace()
    t.decoder = decoders.WordPiece("##", False)
    return t, trainer


def wordlevel():
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.normalizer = N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()])
    t.pre_tokenizer = P.Sequence([P.WhitespaceSplit(), P.Punctuation("contiguous")])
    return t, trainers.WordLevelTrainer(special_tokens=SPECIAL, show_progress=False)


def splits(behavior):
    def make():
        t, trainer = bpe(380, "<unk>", SPECIAL)
        t.pre_tokenizer = P.Split(Regex(r"[\s,]|--"), behavior)
        t.decoder = decoders.Fuse()
        return t, trainer
    return make


def punctuation(behavior):
    def make():
        t, trainer = bpe(380, "<unk>", SPECIAL, fuse_unk=behavior == "isolated")
        t.pre_tokenizer = P.Sequence([P.Punctuation(behavior), P.Digits(individual_digits=False), P.UnicodeScripts()])
        t.decoder = decoders.Fuse()
        return t, trainer
    return make


def added():
    """Added tokens of every kind, before and after normalizing."""
    t, trainer = bytelevel(space=True)
    t.normalizer = N.Lowercase()

    def after(t):
        t.add_tokens([AddedToken("<tok>", lstrip=True, normalized=False), AddedToken("big", single_word=True),
                      AddedToken("<big>", rstrip=True, normalized=True), AddedToken("HELLO", normalized=True)])
        t.add_special_tokens([AddedToken("[MASK]", lstrip=True, rstrip=True, normalized=False), "</s>"])
    LATER.append(after)
    return t, trainer


def added_llama():
    t, trainer = llama()

    def after(t):
        t.add_tokens([AddedToken("<tok>", rstrip=True, normalized=False), AddedToken("whale", single_word=True),
                      AddedToken("blows", normalized=True), AddedToken("white whale", normalized=False)])
        t.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=True)])
    LATER.append(after)
    return t, trainer


def limited(**padding):
    def make():
        t, trainer = wordpiece()()

        def after(t):
            t.enable_truncation(8, stride=0, strategy="longest_first")
            t.enable_padding(**dict(dict(pad_id=0, pad_token="[PAD]"), **padding))
        LATER.append(after)
        return t, trainer
    return make


CASES = {
    "gpt2": gpt2, "gpt2_prefix": gpt2_prefix, "roberta": roberta, "llama3": llama3, "qwen2": qwen2, "o200k": o200k,
    "deepseek": deepseek, "digits_bytes": digits_bytes, "llama": llama, "gemma": gemma,
    **{"metaspace_" + s: metaspace(s) for s in ("always", "first", "never")},
    "metaspace_whole": metaspace("first", False), "t5": t5, "albert": albert, "unigram_bytes": unigram_bytes,
    "bert": wordpiece(), "bert_cased": wordpiece(normalizer=dict(lowercase=False)),
    "bert_accents": wordpiece(normalizer=dict(lowercase=False, strip_accents=True, handle_chinese_chars=False)),
    "bert_dirty": wordpiece(normalizer=dict(clean_text=False, strip_accents=False), cleanup=False, most=10),
    "suffix": suffix, "continuing": continuing, "wordlevel": wordlevel,
    **{"split_" + b: splits(b) for b in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")},
    **{"punctuation_" + b: punctuation(b) for b in ("isolated", "removed", "merged_with_previous", "merged_with_next")},
    "added": added, "added_llama": added_llama, "limited": limited(), "limited_fixed": limited(length=12, direction="left"),
}


def record(out, name):
    LATER.clear()
    t, trainer = CASES[name]()
    t.train_from_iterator(TRAIN, trainer)
    for change in LATER:
        t = change(t) or t
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    t.save(os.path.join(folder, "tokenizer.json"))
    cases = []
    for text in TEXTS:
        e = t.encode(text)
        cases.append(dict(text=text, ids=e.ids, offsets=[list(o) for o in e.offsets],
                          decoded=t.decode(e.ids, skip_special_tokens=False), shown=t.decode(e.ids)))
    for first, second in PAIRS:
        e = t.encode(first, second)
        cases.append(dict(text=first, pair=second, ids=e.ids, offsets=[list(o) for o in e.offsets], types=e.type_ids))
    with open(os.path.join(folder, "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")


def main(out, names):
    print("tokenizers", tokenizers.__version__)
    for name in names or CASES:
        try:
            record(out, name)
            print("recorded", name, flush=True)
        except BaseException as e:  # a panic of the library is one, too
            print("FAILED", name, repr(e)[:500], flush=True)
            traceback.print_exc(limit=-3)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

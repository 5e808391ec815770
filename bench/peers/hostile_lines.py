"""Lines made to break a tokenizer: broken UTF-8, marks in any order, odd spaces, very long words, literal special tokens.

Used by wordpiece.py (comparison with Hugging Face) and data_tools/fixtures/make_wordpiece.py (the committed fixture).
"""
import random

SPECIALS = ["[SEP]", "[CLS]", "[MASK]", "[PAD]", "[UNK]", "[sep]", "[SEP", "SEP]", "[[SEP]]", "[UNK][UNK]", "##ing", "[unused1]"]
SPACES = ["\u00a0", "\u2003", "\u2028", "\u2029", "\u3000", "\u0085", "\u200b", "\ufeff", "\x0b", "\x0c", "\x1c", "\t", "\r", "\u180e"]
CONTROLS = ["\x00", "\x01", "\x07", "\x1b", "\x7f", "\u0080", "\u009f", "\u00ad", "\u202e", "\ufffd", "\ue000", "\U0010fffd", "\u0600", "\u08e2"]
MARKS = [chr(c) for c in [*range(0x300, 0x370), *range(0x483, 0x488), *range(0x591, 0x5c8), *range(0x64b, 0x660), 0x93c, 0x94d, 0x9fe,
                          0xe31, 0xe38, 0xf71, 0xf72, 0xf74, 0x1734, 0x1885, 0x1a7f, 0x1b44, 0x1bf2, 0x1dce, 0x20d0, 0x302a, 0x302e, 0x302f,
                          0x3099, 0xa806, 0xa9bd, 0xfb1e, 0x11099, 0x110ba, 0x111c9, 0x11938, 0x16ff0, 0x1d165, 0x1d16d, 0x1d172, 0x1e8d0]]
LETTERS = "ÄÖÜßéèñçøÅİıŁłŒœǅΣςσΆώЁёЙйїҐѯאבגדاأإآبپक्षিগতあぁアァﾊﾟ가각힣豈更쪽漢字𠀀𪛟𫝀﨑ﬁﬀ①㋿™№ℵÅKΩ≠≮¼Ⅷⅷ𝐀𝔘𐐀𐵐ⴀႠᲐᏸꭰẞỗṩ"
BROKEN = [b"\xff", b"\xc0\xaf", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\x80\x80", b"\xf4\x90\x80\x80", b"\xc3", b"\xe9t\xe9", b"\xf0\x80\x80\x80",
          b"\xe0\x80\xaf", b"\xfe\xfe\xff\xff", b"\xf8\x88\x80\x80\x80"]


def random_character(rng):
    kind = rng.random()
    if kind < 0.25:
        return chr(rng.randrange(0x20, 0x7f))
    if kind < 0.45:
        return chr(rng.randrange(0x80, 0x3000))
    if kind < 0.85:
        c = rng.randrange(0x3000, 0x10000)
        return "x" if 0xD800 <= c < 0xE000 else chr(c)
    return chr(rng.randrange(0x10000, 0x20000 if rng.random() < 0.8 else 0x110000))


def long_word(rng):
    length = rng.choice([15, 16, 17, 32, 63, 64, 65, 99, 100, 101, 128, 300, 5000])
    alphabet = rng.choice(["a", "abcdefghijklmnop", "é", "e\u0301", "é\u00ad", "я", "ab\x00", "한"])
    return "".join(rng.choice(alphabet) for _ in range(length))


def hostile_piece(rng, words):
    kind = rng.randrange(10)
    word = rng.choice(words)
    if kind == 0:
        return rng.choice(BROKEN)
    if kind == 1:
        return (rng.choice(LETTERS) + "".join(rng.choice(MARKS) for _ in range(rng.randrange(1, 6)))).encode()
    if kind == 2:
        return rng.choice(SPECIALS).encode()
    if kind == 3:
        return rng.choice(SPACES + CONTROLS).encode()
    if kind == 4:
        return "".join(random_character(rng) for _ in range(rng.randrange(1, 12))).encode()
    if kind == 5 and rng.random() < 0.2:
        return long_word(rng).encode()
    if kind == 6:  # one character of a real word replaced
        at = rng.randrange(len(word) + 1)
        return (word[:at] + rng.choice([rng.choice(LETTERS), rng.choice(MARKS), rng.choice(CONTROLS)]) + word[at + 1:]).encode()
    if kind == 7:
        return rng.choice([word.upper(), word.title(), word.swapcase(), word + word]).encode()
    return word.encode()


def hostile_lines(count, words, seed=1):
    """`count` byte strings; `words` are real words (str) to mix in."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        pieces = [hostile_piece(rng, words) for _ in range(rng.randrange(1, 20))]
        lines.append(rng.choice([b" ", b" ", b"", b"-", b"  "]).join(pieces))
    return lines

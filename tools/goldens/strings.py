"""Strings that tokenizers treat in different ways, for tools/checks/tokenizers.py and vocabularies.py."""

import random
import unicodedata

from texts import TEXTS

CLASSES = [
    "abcdefgXYZQRS", "0123456789", " ", "    ", "\n\r\t ", "'’", "sStTmMdDreRElLvV", "!?.,;:-_()<>|/\\[]{}$+=^~`@#%&*\"",
    "éüñßøÅǅʰª", "日本語中文龥", "ひらがなカタカナー", "한국어ㄱㆎ", "абвгдЖ", "אבגד", "عربي٣", "\u0301\u0302\u200d\ufe0f\u0900\u093e", "😀👍🏽🦙",
    "\u00a0\u3000\u2003\u0085", "½²Ⅷ٣①", "\x00\x01\x7f", "▁", "€£©→∑", "，。！…“”", "ㄅㄆ︰", "𝕳𐐀𐐨", "हिन्दी", "ไทย",
]  # fmt: skip
WORDS = ["it's", "I'LL", "don't", "camelCase", "HTTPServer", "x1y2", "3.14", "https://a.b/c?d=e", "\n\n", "  ", "1234567", "def f(x):\n    return"]
WORDS += ["👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "1️⃣", "cafe\u0301", "\u1112\u1161\u11ab", "각힣", "ﬁﬀ", "①㈱㍿", "ｶﾞ", "İI", "Σς", "Ǆ", "Å\u030a", "≮", "<\u0338", "<0x41>", "</s>", "\r\n"]
# The ends of what UTF-16 and UTF-8 treat differently, byte order marks, characters that are none.
EDGES = "\x00\x7f\x80\x9f\xa0\xad\u07ff\u0800\ud7ff\ue000\uf8ff\ufdd0\ufdef\ufeff\ufff9\ufffc\ufffd\ufffe\uffff\U00010000\U0001ffff\U000e0001\U000e007f\U000f0000\U0010fffd\U0010ffff"
SPACES = "".join(chr(c) for c in range(0x3001) if chr(c).isspace()) + "\u180e\u200b\u200c\u200d\u2060\ufeff"


def by_category() -> list[str]:
    """The assigned characters, by category. Unassigned ones may be assigned in the Unicode version of others."""
    found: dict[str, list[str]] = {}
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category not in ("Cn", "Cs", "Co"):
            found.setdefault(category, []).append(chr(code))
    return ["".join(found[category]) for category in sorted(found)]


def strings(count: int, seed: int, tokens: list[str], special: list[str] = ()) -> list[str]:
    """TEXTS, then generated strings with texts of `tokens` and `special` in them."""
    rng = random.Random(seed)
    categories = by_category()
    words = [WORDS, *([tokens] if tokens else []), *([special] * 2 if special else [])]

    def part(kinds: list[str]) -> str:
        draw = rng.random()
        if draw < 0.1:
            word = rng.choice(rng.choice(words))
            return word if rng.random() < 0.9 else word[: rng.randint(1, len(word))]
        if draw < 0.14:
            return rng.choice(rng.choice(categories))
        if draw < 0.15:
            return rng.choice(EDGES)
        if draw < 0.17:
            return rng.choice(SPACES)
        if draw < 0.175:
            return rng.choice(rng.choice(kinds)) * rng.choice([3, 10, 40, 300])
        return rng.choice(rng.choice(kinds))

    def one() -> str:
        kinds = rng.sample(CLASSES, rng.randint(1, 5)) + rng.sample(categories, rng.randint(0, 2))
        return "".join(part(kinds) for _ in range(rng.randint(1, 32)))

    return TEXTS[:count] + [one() for _ in range(count - len(TEXTS))]

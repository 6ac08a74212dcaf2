"""Text from models as a page shows it: nothing in it acts on the page. Templates escape it; here control characters and
those that turn the direction of writing become visible, the thinking is told from the answer, and two are compared."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from training.verifiers.text import BEGIN_THINK, END_THINK, last_boxed

MOST_SHOWN = 20_000  # characters of a response in a list
AROUND = 200  # characters of what is the same before and after a difference
MOST_WORDS = 10_000  # of each text that is compared
_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")  # each with the space after it
_KEPT = "\n\t"
_STATED = re.compile(r"(?:\n####\s*|\b(?:final )?answer(?: is\b|:)+\s*)([^\n]{1,200})\s*$", re.IGNORECASE)


def _shown(code: int) -> str:
    """What stands for a character that would not be seen, or would move others."""
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"⟨U+{code:04X}⟩"


_HIDDEN = {
    code: _shown(code)
    for code in (*range(0xA0), 0xAD, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF,
                 0x61C, 0x180E, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080))
    if chr(code) not in _KEPT and unicodedata.category(chr(code)) in ("Cc", "Cf", "Cn", "Zl", "Zp")
}  # fmt: skip


def harmless(text: str) -> str:
    """The text with hidden characters, and those that turn the direction of writing, as marks that say which."""
    return text.translate(_HIDDEN)


@dataclass(frozen=True)
class Part:
    """Of a text: "thinking", "answer", "final" (the answer itself within it), "same", "gone" or "new"."""

    kind: str
    text: str


@dataclass(frozen=True)
class Shown:
    """A response: its thinking, folded, and the parts of its answer. `cut`: characters that are not shown here."""

    thinking: str
    thinking_words: int  # of all of it
    is_open: bool  # the thinking never ended: there is no answer
    answer: Sequence[Part]
    cut: int


def shown(response: str, *, most: int | None = MOST_SHOWN) -> Shown:
    """`most`: characters of thinking and answer, each; None: all."""
    before, ended, after = response.rpartition(END_THINK)
    is_open = not ended and BEGIN_THINK in response
    thinking, answer = (response, "") if is_open else (before, after)
    thinking = thinking.replace(BEGIN_THINK, "", 1).strip("\n")
    answer = answer.strip("\n")
    words, left = len(thinking.split()), 0
    if most is not None:
        left = max(0, len(thinking) - most) + max(0, len(answer) - most)
        thinking, answer = thinking[:most], answer[-most:]
    return Shown(harmless(thinking), words, is_open, _with_final(answer), left)


def _with_final(answer: str) -> list[Part]:
    """The answer with what was judged in it as a part of its own: the last box, or what it states at its end."""
    span = _final_span(answer)
    if span is None:
        return [Part("answer", harmless(answer))] if answer else []
    first, last = span
    parts = [Part("answer", answer[:first]), Part("final", answer[first:last]), Part("answer", answer[last:])]
    return [Part(part.kind, harmless(part.text)) for part in parts if part.text]


def _final_span(answer: str) -> tuple[int, int] | None:
    boxed = last_boxed(answer)
    if boxed:
        first = answer.rfind(f"{{{boxed}}}") + 1
        return first, first + len(boxed)
    stated = _STATED.search(answer[-400:])
    if stated is None:
        return None
    start = max(0, len(answer) - 400)
    return start + stated.start(1), start + stated.end(1)


def _shortened(text: str) -> str:
    """What is the same in both, where it is long: its beginning and its end."""
    left = len(text) - 2 * AROUND
    if left <= AROUND:
        return text
    return f"{text[:AROUND]}\n[… {left:,} characters that are the same …]\n{text[-AROUND:]}"


def compared(one: str, two: str) -> list[Part] | None:
    """Both texts word by word: what is the same, what is gone from the first, what is new in the second. None where
    they are too long to be compared."""
    left, right = _WORDS.findall(one), _WORDS.findall(two)
    if max(len(left), len(right)) > MOST_WORDS:
        return None
    parts: list[Part] = []
    # Words that are everywhere begin no match: without that, texts of few words would take minutes.
    for _, a, b, c, d in SequenceMatcher(None, left, right, autojunk=True).get_opcodes():
        if left[a:b] == right[c:d]:
            parts.append(Part("same", _shortened(harmless("".join(left[a:b])))))
            continue
        if a < b:
            parts.append(Part("gone", harmless("".join(left[a:b]))))
        if c < d:
            parts.append(Part("new", harmless("".join(right[c:d]))))
    return parts

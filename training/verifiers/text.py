"""Judges of plain text: one of the accepted answers, or the letter of a multiple choice."""

import json
import re
import string
from dataclasses import dataclass

from training.verifiers.base import Inline, Verdict

BEGIN_THINK, END_THINK = "<think>", "</think>"
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_BRACES = re.compile(r"\\boxed\s?\{|\\.|[{}]", re.DOTALL)
_STATED = re.compile(
    r"\b[Aa]nswer\s?(?:is|:)\s?:?\s?(?:option |choice )?\**(?:\(([A-Za-z])\)|([A-Z])(?![a-zA-Z'’]))"
)
_BARE = re.compile(r"(?:^|\s)\**[(\[]?([A-Z])[)\].:]?\**\.?$")
_BOXED_LETTER = re.compile(r"(?:\\text\w{0,2}\{)?\(?([A-Za-z])\)?\}?\.?")
_END = 2000  # characters at the end of a response that are searched for a letter


def final_answer(response: str) -> str:
    """What follows the last `</think>`, without one all of it; nothing where a thought is begun there and not ended.

    A thought that the prompt opened is to be seen: `Rollouts` hands it on with the response.
    """
    answer = response.rpartition(END_THINK)[2]
    return "" if BEGIN_THINK in answer else answer.strip()


def last_boxed(text: str) -> str | None:
    """What the last complete `\\boxed{...}` holds, the inner of two; None without one. Linear in the text."""
    opened: list[int] = []  # where each open brace's content begins; negative if it is no box
    last: tuple[int, int] | None = None
    for match in _BRACES.finditer(text):
        if match[0] == "}":
            begin = opened.pop() if opened else -1
            if begin > (last[0] if last else -1):
                last = (begin, match.start())
        elif match[0].endswith("{") and match[0] != "\\{":
            opened.append(match.end() if len(match[0]) > 1 else -1)
    return text[slice(*last)] if last else None


def normalise(text: str) -> str:
    """As SQuAD and Natural Questions do: lower case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def choice(response: str) -> str | None:
    """The letter that a response chooses, in upper case; None where it names none.

    After the thinking trace, in this order: the last boxed letter, the last "answer is X", a bare letter at the end.
    """
    text = final_answer(response)[-_END:]
    if boxed := _BOXED_LETTER.fullmatch((last_boxed(text) or "").strip()):
        return boxed[1].upper()
    if stated := [first or second for first, second in _STATED.findall(text)]:
        return stated[-1].upper()
    bare = _BARE.search(text.rstrip())
    return bare[1] if bare else None


@dataclass(frozen=True)
class ExactMatch(Inline):
    """`answer` is the text or a JSON list of accepted texts. The whole final answer, or its box, must equal one."""

    def verify(self, answer: str, response: str) -> Verdict:
        """See training.verifiers.base.Verifier."""
        final = final_answer(response)
        boxed = last_boxed(final)
        given = normalise(final if boxed is None else boxed)
        return Verdict(given != "" and given in {normalise(text) for text in accepted(answer)})


@dataclass(frozen=True)
class Choice(Inline):
    """`answer` is one letter. Implements `training.verifiers.base.Verifier`."""

    def verify(self, answer: str, response: str) -> Verdict:
        """See training.verifiers.base.Verifier."""
        letter = answer.strip().strip("().").upper()
        if len(letter) != 1 or not letter.isalpha():
            return Verdict(False, failure=f"broken answer: {answer!r} is not one letter")
        chosen = choice(response)
        return Verdict(chosen == letter, reason="" if chosen else "no letter chosen")


def accepted(answer: str) -> list[str]:
    """The texts of a JSON list; of anything else, the text itself."""
    try:
        texts = json.loads(answer)
    except ValueError:
        return [answer]
    return [str(text) for text in texts] if isinstance(texts, list) else [answer]

"""Mathematical answers, judged by Math-Verify."""

import functools
import logging
from dataclasses import dataclass
from typing import Any

from training.verifiers.base import Isolation, Verdict
from training.verifiers.text import final_answer, last_boxed

LONGEST_ANSWER = 20_000  # characters at the end of a response that are looked at; answers are short


@dataclass(frozen=True)
class MathVerifier:
    r"""`answer` is LaTeX or plain ("\frac{1}{2}", "1/2", "$x=3$", "(1,2)"). Implements `verifiers.base.Verifier`.

    After the thinking trace, the last complete \boxed{...} counts and nothing else. Without one, Math-Verify looks for
    an answer in the text: after "the final answer is" first, then the last formula or number. Equal are, as
    Math-Verify has it: equivalent expressions, numbers to six digits, sets and intervals in any notation, 50% and 0.5
    or 50. Runs in a process of its own: sympy may hang or take all memory.
    """

    timeout_seconds: float = 5.0
    isolation: Isolation = "process"

    def warm(self) -> None:
        """Import what judging needs (a second or two), so that it does not count as judging."""
        self.verify("1", "\\boxed{\\frac{1}{2}}")

    def verify(self, answer: str, response: str) -> Verdict:
        """See training.verifiers.base.Verifier."""
        if not (gold := _gold(answer)):
            return Verdict(False, failure=f"broken answer: Math-Verify cannot parse {answer[:200]!r}")
        final = final_answer(response)[-LONGEST_ANSWER:]
        boxed = last_boxed(final)
        if not (given := _parse(final if boxed is None else f"\\boxed{{{boxed}}}")):
            return Verdict(False, reason="no answer found")
        from math_verify import verify

        return Verdict(bool(verify(gold, given, timeout_seconds=None)))  # the order matters: gold first


@functools.lru_cache(maxsize=1024)
def _gold(answer: str) -> list[Any]:
    """The answer parsed: as it stands if it has delimiters or a box, else as LaTeX, else as plain text."""
    is_marked = any(mark in answer for mark in ("$", "\\boxed", "\\(", "\\["))
    for text in [answer] if is_marked else [f"${answer}$", answer]:
        parsed = _parse(text)
        if not all(isinstance(part, str) for part in parsed):
            return parsed
    return []


def _parse(text: str) -> list[Any]:
    """What Math-Verify extracts; empty if nothing. Its own timeouts need SIGALRM and stay off: ours is outside."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that its timeouts are off
    targets = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
    return parse(text, extraction_config=targets, parsing_timeout=None)

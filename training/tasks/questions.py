"""Tasks whose prompts are the questions of a data set; they differ in what an answer is, and how it is judged."""

from typing import ClassVar, Literal

from pydantic import Field

from training.data.base import Kind
from training.tasks.base import Prompt
from training.tasks.dataset import SLOT, DatasetTask
from training.verifiers.base import Verifier


class MultipleChoice(DatasetTask):
    """Multiple choice. The response ends with `Answer: X`, X the letter of the right option.

    Data sets: arc, hellaswag, truthfulqa.
    """

    kind: ClassVar[Kind] = "choice"
    default_template: ClassVar[str] = (
        f'{SLOT}\n\nThink, then end with the line "Answer: X", where X is the letter of the right option.'
    )

    def verifier(self, prompt: Prompt) -> Verifier:
        """Reads the letter."""
        from training.verifiers.text import Choice

        return Choice()


class ExactMatchTask(DatasetTask):
    """Short answers compared as text. The answer stands in \\boxed{}.

    Data set: natural_questions.
    """

    kind: ClassVar[Kind] = "exact"
    default_template: ClassVar[str] = f"{SLOT}\n\nThink, then put the answer, a few words, in \\boxed{{}}."

    def verifier(self, prompt: Prompt) -> Verifier:
        """Any of the accepted answers."""
        from training.verifiers.text import ExactMatch

        return ExactMatch()


class MathText(DatasetTask):
    """Mathematics in words, judged by Math-Verify. The final answer stands in \\boxed{}.

    Data sets: polaris, gsm8k, math, aime, aime25.
    """

    kind: ClassVar[Kind] = "math"
    default_template: ClassVar[str] = (
        f"{SLOT}\n\nReason step by step, and put the final answer in \\boxed{{}}."
    )

    def verifier(self, prompt: Prompt) -> Verifier:
        """Compares mathematically equal answers."""
        from training.verifiers.math import MathVerifier

        return MathVerifier()


class Code(DatasetTask):
    """Programs in Python, run against unit tests in a sandbox. The program stands in a ```python block.

    Data sets: deepcoder, humaneval, humaneval_plus, mbpp, mbpp_plus, livecodebench.
    """

    kind: ClassVar[Kind] = "code"
    default_template: ClassVar[str] = f"{SLOT}\n\nWrite the whole program in one ```python block."

    accept_missing: tuple[Literal["landlock", "seccomp"], ...] = Field(
        default=(), description="Protections of the sandbox that the trainer's machine may lack."
    )
    test_seconds: float = Field(default=10.0, gt=0, le=600, description="Longest run of one test, seconds.")
    problem_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="Longest run of all tests of a problem, seconds."
    )
    memory_mib: int = Field(default=512, ge=64, le=65_536, description="Memory of one test, MiB.")

    def verifier(self, prompt: Prompt) -> Verifier:
        """Correct where every test passes."""
        from training.verifiers.code import CodeVerifier

        return CodeVerifier(
            accept_missing=self.accept_missing,
            test_seconds=self.test_seconds,
            timeout_seconds=self.problem_seconds,
            memory_mib=self.memory_mib,
        )

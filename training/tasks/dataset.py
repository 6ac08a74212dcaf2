"""Tasks whose problems are rows of a data set: the base of math, code, choice and exact.

Tasks whose prompts are the questions of a data set; they differ in what an answer is, and how it is judged.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from training.data.adapters import GENERIC, Adapter, find_adapter
from training.data.base import DataError, Problem, ProblemKind
from training.data.files import read_problems
from training.data.hub import Location, fetch
from training.tasks.base import Prompt, SplitTask, TaskError
from training.verifiers.base import Verifier

SLOT = "{problem}"


class DatasetTask(SplitTask):
    """Problems of a known data set (`source`) or of a file (`path`). Implements `training.tasks.base.Task`.

    A subclass says its kind, how it asks for the answer, and its verifier.
    """

    kind: ClassVar[ProblemKind]
    default_template: ClassVar[str]

    source: str | None = Field(default=None, description="A known data set, from the Hugging Face hub.")
    config: str | None = Field(
        default=None, min_length=1, description="Another configuration of `source` on the hub, e.g. ARC-Easy."
    )
    path: str | None = Field(
        default=None,
        description="Instead of `source`: a .jsonl, .json or .parquet file or a folder of them; relative to "
        "HEADROOM_HOME/data.",
    )
    adapter: str = Field(
        default=GENERIC, description="Whose field names `path` has: generic (prompt, answer) or a data set."
    )
    held_out_source: str | None = Field(
        default=None, description="The held-out prompts: another known data set, from the hub."
    )
    held_out_path: str | None = Field(default=None, description="The held-out prompts: a file, as `path`.")
    held_out_adapter: str | None = Field(
        default=None, description="Whose field names `held_out_path` has; open: as the training prompts."
    )
    held_out_share: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="Without a held-out set: this share of the problems, by their hash.",
    )
    broken_rows: Literal["refuse", "leave_out"] | None = Field(
        default=None,
        description="Rows with a wrong field: an error, or left out. Open: an error in one's own file, left out of "
        "a data set of the hub, which nobody here can mend.",
    )
    limit: int | None = Field(default=None, ge=1, description="At most so many training prompts.")
    template: str | None = Field(
        default=None,
        description="The prompt around the problem, which stands for {problem}; open: the task's.",
    )

    @field_validator("template")
    @classmethod
    def _template_has_one_slot(cls, value: str | None) -> str | None:
        if value is not None and value.count(SLOT) != 1:
            raise ValueError(f"must have {SLOT} once")
        return value

    @model_validator(mode="after")
    def _one_origin_each(self) -> "DatasetTask":
        if (self.source is None) == (self.path is None):
            raise ValueError("give either source (a known data set) or path (a file)")
        if self.source is not None and "adapter" in self.model_fields_set:
            raise ValueError("adapter belongs to path; source has its own")
        if self.held_out_source is not None and self.held_out_path is not None:
            raise ValueError("give either held_out_source or held_out_path")
        if self.config is not None and self.source is None:
            raise ValueError("config belongs to source")
        if self.held_out_adapter is not None and self.held_out_path is None:
            raise ValueError("held_out_adapter belongs to held_out_path")
        for name in (self.source or self.adapter, self.held_out_source or self.held_out_adapter):
            if name is not None:
                find_adapter(name, self.kind)
        if GENERIC in (self.source, self.held_out_source):
            raise ValueError(f"{GENERIC} is no data set of the hub; it is an adapter for path")
        return self

    @property
    def held_out_pool(self) -> int:
        """How many prompts are held out."""
        return len(self._split[1])

    def benchmark_prompts(self) -> Sequence[Prompt]:
        """The held-out set where there is one, else every problem: nobody trains on a benchmark. TaskError."""
        try:
            held_out = self._held_out_problems()
            return self._prompts(self._training_problems() if held_out is None else held_out)
        except DataError as error:
            raise TaskError(str(error)) from None

    def verifier(self, prompt: Prompt) -> Verifier:
        """The same for every problem of the kind."""
        raise NotImplementedError

    @cached_property
    def _split(self) -> tuple[list[Prompt], list[Prompt]]:
        """Each in the order of their content's hash. TaskError names file, row, field and reason."""
        try:
            training = self._prompts(self._training_problems())
            apart = self._held_out_problems()
        except DataError as error:
            raise TaskError(str(error)) from None
        if apart is None:
            count = max(1, round(self.held_out_share * len(training)))
            training, held_out = training[count:], training[:count]
        else:
            held_out, known = self._prompts(apart), {digest_of(problem.text) for problem in apart}
            training = [prompt for prompt in training if prompt.id.rpartition("-")[2] not in known]
        if not training:
            raise TaskError("no training prompt is left: every problem is held out")
        return training[: self.limit], held_out

    def _training_problems(self) -> tuple[Problem, ...]:
        adapter = find_adapter(self.source or self.adapter, self.kind)
        return self._read(adapter, self.path, self._configured(adapter, adapter.train))

    def _held_out_problems(self) -> tuple[Problem, ...] | None:
        """None where the training problems are to be cut in two."""
        if self.held_out_path is not None:
            adapter = find_adapter(self.held_out_adapter or self.source or self.adapter, self.kind)
            return self._read(adapter, self.held_out_path, None)
        if self.held_out_source is not None:
            adapter = find_adapter(self.held_out_source, self.kind)
            return self._read(adapter, None, adapter.held_out or adapter.train)
        adapter = find_adapter(self.source or self.adapter, self.kind)
        if self.source is None or adapter.held_out is None:
            return None
        return self._read(adapter, None, self._configured(adapter, adapter.held_out))

    def _configured(self, adapter: Adapter, location: Location | None) -> Location | None:
        """The location in the configuration asked for. A held-out set of another configuration stays."""
        if (
            self.config is None
            or location is None
            or location.config != getattr(adapter.train, "config", None)
        ):
            return location
        return replace(location, config=self.config)

    def _read(self, adapter: Adapter, path: str | None, location: Location | None) -> tuple[Problem, ...]:
        default = "leave_out" if path is None else "refuse"
        leave_out = (self.broken_rows or default) == "leave_out"
        if path is not None:
            file = self._place.home / "data" / path
            return read_problems(file, adapter.read, leave_out_broken=leave_out)
        assert location is not None  # every data set with a name has one
        folder = fetch(location, self._place.home, seconds=self._place.patience)
        return read_problems(folder, adapter.read, leave_out_broken=leave_out)

    def _prompts(self, problems: Iterable[Problem]) -> list[Prompt]:
        """Prompts of distinct text in the order of its hash: the same for every run, whatever the rows' order."""
        distinct: dict[str, Problem] = {}
        for problem in problems:
            distinct.setdefault(digest_of(problem.text), problem)
        before, _, after = (self.template or self.default_template).partition(SLOT)
        return [
            Prompt(
                id=f"{problem.id}-{digest}" if problem.id else digest,
                text=f"{before}{problem.text.strip()}{after}",
                answer=problem.answer,
                difficulty=problem.difficulty,
            )
            for digest, problem in sorted(distinct.items())
        ]


def digest_of(text: str) -> str:
    """16 hexadecimal digits that two problems share where only white space and case differ."""
    return hashlib.sha256(" ".join(text.split()).casefold().encode()).hexdigest()[:16]


class MultipleChoice(DatasetTask):
    """Multiple choice. The response ends with `Answer: X`, X the letter of the right option.

    Data sets: arc, hellaswag, truthfulqa.
    """

    kind: ClassVar[ProblemKind] = "choice"
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

    kind: ClassVar[ProblemKind] = "exact"
    default_template: ClassVar[str] = f"{SLOT}\n\nThink, then put the answer, a few words, in \\boxed{{}}."

    def verifier(self, prompt: Prompt) -> Verifier:
        """Any of the accepted answers."""
        from training.verifiers.text import ExactMatch

        return ExactMatch()


class MathText(DatasetTask):
    """Mathematics in words, judged by Math-Verify. The final answer stands in \\boxed{}.

    Data sets: polaris, gsm8k, math, aime, aime25.
    """

    kind: ClassVar[ProblemKind] = "math"
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

    kind: ClassVar[ProblemKind] = "code"
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

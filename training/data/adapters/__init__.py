"""Adapters by name: what each known data set calls its fields, and where on the hub it is. See docs/tasks.md."""

from collections.abc import Callable
from dataclasses import dataclass

from training.data.adapters import choice, code, math, own
from training.data.base import Problem, ProblemKind, Row
from training.data.hub import Location

GENERIC = "generic"


@dataclass(frozen=True)
class Adapter:
    """`read` is a pure function. `train` and `held_out` are splits on the hub; without `held_out` the training
    split is cut in two."""

    kind: ProblemKind
    read: Callable[[Row], Problem]
    train: Location | None = None
    held_out: Location | None = None


_ARC = "allenai/ai2_arc"
_DEEPCODER = "agentica-org/DeepCoder-Preview-Dataset"
_MBPP = "google-research-datasets/mbpp"
_NQ = "google-research-datasets/nq_open"
_MATH_500 = Location("HuggingFaceH4/MATH-500", split="test")

ADAPTERS: dict[str, Adapter] = {
    "polaris": Adapter("math", math.polaris, Location("POLARIS-Project/Polaris-Dataset-53K")),
    "gsm8k": Adapter(
        "math", math.gsm8k, Location("openai/gsm8k", "main"), Location("openai/gsm8k", "main", "test")
    ),
    "math": Adapter("math", math.math, Location("DigitalLearningGmbH/MATH-lighteval"), _MATH_500),
    "aime": Adapter("math", math.aime, Location("HuggingFaceH4/aime_2024")),
    "aime25": Adapter("math", math.aime, Location("math-ai/aime25", split="test")),
    "deepcoder": Adapter(
        "code", code.deepcoder, Location(_DEEPCODER, "primeintellect"), Location(_DEEPCODER, "lcbv5", "test")
    ),
    "humaneval": Adapter(
        "code", code.humaneval, Location("openai/openai_humaneval", "openai_humaneval", "test")
    ),
    "humaneval_plus": Adapter("code", code.humaneval, Location("evalplus/humanevalplus", split="test")),
    "mbpp": Adapter("code", code.mbpp, Location(_MBPP, "full"), Location(_MBPP, "full", "test")),
    "mbpp_plus": Adapter("code", code.mbpp_plus, Location("evalplus/mbppplus", split="test")),
    "livecodebench": Adapter(
        "code",
        code.livecodebench,
        Location("livecodebench/code_generation_lite", split="test", files="test*.jsonl"),
    ),
    "arc": Adapter(
        "choice", choice.arc, Location(_ARC, "ARC-Challenge"), Location(_ARC, "ARC-Challenge", "test")
    ),
    "hellaswag": Adapter(
        "choice",
        choice.hellaswag,
        Location("Rowan/hellaswag"),
        Location("Rowan/hellaswag", split="validation"),
    ),
    "truthfulqa": Adapter(
        "choice", choice.truthfulqa, Location("truthfulqa/truthful_qa", "multiple_choice", "validation")
    ),
    "natural_questions": Adapter(
        "exact",
        choice.natural_questions,
        Location(_NQ, "nq_open"),
        Location(_NQ, "nq_open", "validation"),
    ),
}

_OWN: dict[ProblemKind, Adapter] = {
    "math": Adapter("math", own.math),
    "code": Adapter("code", own.code),
    "choice": Adapter("choice", own.choice),
    "exact": Adapter("exact", own.exact),
}


def find_adapter(name: str, kind: ProblemKind) -> Adapter:
    """The adapter of this name for a task of this kind. ValueError names those there are."""
    if name == GENERIC:
        return _OWN[kind]
    known = [name for name, adapter in ADAPTERS.items() if adapter.kind == kind]
    if name not in ADAPTERS:
        raise ValueError(f"no data set named {name!r}; for {kind} there are: {', '.join(known)}")
    if ADAPTERS[name].kind != kind:
        raise ValueError(f"{name} belongs to the task {ADAPTERS[name].kind}; {kind} has: {', '.join(known)}")
    return ADAPTERS[name]

"""The data set basic_arithmetic of reasoning-gym, worked off one operation at a time."""

import json
import random
import re
from typing import Any

from training.tasks import Prompt, Task
from training.tasks.arithmetic import END_THINK, THINK
from training.tasks.reasoning_gym import VIRTUAL_SIZE, ReasoningGym, entry_of

OPTIONS: dict[str, Any] = {
    "dataset": "basic_arithmetic",
    "config": {
        "operators": ["+", "-"],
        "min_terms": 2,
        "max_terms": 7,
        "max_digits": 1,
        "allow_parentheses": False,
        "whitespace": "no_space",
    },
    "template": f"{{problem}}{THINK}",
    "train_prompts": 4096,
}
_OPERATION = re.compile(r"(-?\d+)([+-]\d+)")


class Expressions:
    """Sums and differences of `size` numbers up to ten. Implements `training.teaching.base.Family`."""

    def task(self) -> Task:
        """With the options of the tiny model."""
        return ReasoningGym.model_validate(OPTIONS)

    def problem(self, size: int, rng: random.Random) -> Prompt:
        """Of `size` terms."""
        config = OPTIONS["config"] | {"min_terms": size, "max_terms": size}
        entry = entry_of(OPTIONS["dataset"], json.dumps(config), rng.randrange(VIRTUAL_SIZE))
        return Prompt(
            id=entry["metadata"]["expression"], text=f"{entry['question']}{THINK}", answer=entry["answer"]
        )

    def worked(self, prompt: Prompt, mistakes: float, rng: random.Random) -> str:
        """The expression after each operation: `4-6+9` is worked off as `-2+9=7`. A wrong value is off by at most
        nine."""
        rest, trace = prompt.id.replace(" ", ""), []
        while operation := _OPERATION.match(rest):
            wrong = rng.randint(-9, 9) if rng.random() < mistakes else 0
            value = int(operation[1]) + int(operation[2]) + wrong
            rest = f"{value}{rest[operation.end() :]}"
            trace.append(rest)
        return f"{'='.join(trace)}{END_THINK}{rest}"

    def guess(self, prompt: Prompt, rng: random.Random) -> str:
        """A random number."""
        return f"{END_THINK}{rng.randint(-20, 20)}"

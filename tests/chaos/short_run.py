"""The run that every case disturbs: some seconds of real training, the same records each time.

The tiny model learns sums under CISPO. Synchronous, in float32 and with one group in flight, so that a run is a
function of its seed, bit for bit. Math-Verify judges, in the reward process.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.deep import IS_DEEP
from tests.pretrained import MODEL, have_model
from training.tasks.arithmetic import THINK

RECIPE, TASK, SEED = "chaos", "math", 7
# Updates, and from one evaluation and checkpoint to the next. The long form needs more time before a run's end.
STEPS, EVERY = (40, 4) if IS_DEEP else (12, 3)
MIDDLE = STEPS // 2 // EVERY * EVERY - EVERY + 2  # two updates past a checkpoint
BUDGET_HOURS = 5.0  # never reached: the steps end it
CHANGES: dict[str, dict[str, Any]] = {
    "task": {
        "name": TASK,
        "options": {"path": "sums.jsonl", "template": "{problem}", "held_out_share": 0.4},
    },
    "rollout": {"prompts_per_step": 4, "generations_per_prompt": 8, "max_in_flight_prompts": 1},
    "offpolicy": {"mode": "pipeline", "k": 0},
    "curriculum": {"mode": "uniform"},
    "optimizer": {"warmup_steps": 2, "lr": 3e-4},
    "precision": {"generator": "float32", "trainer": "float32"},
    "engine": {"type": "transformers"},
    "budget": {"max_steps": STEPS},
    "eval": {"every_steps": EVERY, "prompts": 32, "k": 2},
    "checkpoint": {"every_steps": EVERY},
}


def prepare(home: Path) -> None:
    """Model and data of the run."""
    have_model(home)
    pairs = [(a, b) for a in range(1, 10) for b in range(1, 10)]
    (home / "data").mkdir(parents=True, exist_ok=True)
    rows = ({"prompt": f"{a}+{b}={THINK}", "answer": str(a + b)} for a, b in pairs)
    (home / "data" / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def config_of(tiny: Mapping[str, Any]) -> dict[str, Any]:
    """The run's configuration, from that of the tiny ScaleRL recipe."""
    config = {name: dict(section) if isinstance(section, dict) else section for name, section in tiny.items()}
    for name, section in CHANGES.items():
        config[name] |= section
    return config | {"name": RECIPE, "title": "Sums, for the kill matrix"}


def launch_body() -> dict[str, Any]:
    """Of POST runs."""
    return {"recipe": RECIPE, "task": TASK, "model": MODEL, "seed": SEED, "budget_hours": BUDGET_HOURS}

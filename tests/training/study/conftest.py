"""A home with a model that a recipe can name, and study files of a few toy runs."""

import json
from pathlib import Path

import pytest
import safetensors.numpy

TEXT = """\
title: A small file
studies:
  - name: loss
    question: Does the loss matter?
    recipe: tiny/scalerl
    settings:
      engine.type: transformers
      eval.every_steps: 3
    arms:
      cispo: {}
      dapo:
        loss.type: dapo
    baseline: cispo
    seeds: [0, 1]
    budget: {steps: 6, minutes: 1}
    axis: tokens
    judgement:
      measure: ceiling
      margin: 0.02
      yes: An interval of the difference lies above the margin.
      no: It lies within the margin.
      undecided: Anything else.
"""


@pytest.fixture
def text() -> str:
    return TEXT


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With tiny-arithmetic as far as a check looks at it."""
    folder = tmp_path / "home" / "models" / "tiny-arithmetic"
    folder.mkdir(parents=True)
    config = {"model_type": "qwen2", "max_position_embeddings": 96, "eos_token_id": 1}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    import numpy as np

    safetensors.numpy.save_file({"w": np.zeros(4, np.float32)}, folder / "model.safetensors")
    return tmp_path / "home"

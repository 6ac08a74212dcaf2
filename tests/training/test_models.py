import json
from pathlib import Path

import pytest

from training.models import ModelError, available_models, check_model, find_model


def add_model(home: Path, name: str, config: dict) -> Path:
    folder = home / "models" / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_available_models_are_the_folders_with_a_config(tmp_path: Path) -> None:
    folder = add_model(tmp_path, "a", {})
    (tmp_path / "models" / "half-made").mkdir()

    assert available_models(tmp_path) == {"a": folder}
    assert available_models(tmp_path / "nowhere") == {}


def test_find_by_name_and_by_path(tmp_path: Path) -> None:
    folder = add_model(tmp_path, "a", {})

    assert find_model("a", tmp_path) == folder
    assert find_model(str(folder), tmp_path / "nowhere") == folder


def test_missing_base_model_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="none yet; `python -m training pretrain` makes it"):
        find_model("tiny-arithmetic", tmp_path)


@pytest.mark.parametrize(
    ("config", "reason"),
    [({"max_position_embeddings": 16}, "context of 16 tokens"), ({}, "does not say max_position_embeddings")],
)
def test_check_refuses(tmp_path: Path, config: dict, reason: str) -> None:
    add_model(tmp_path, "a", config)

    with pytest.raises(ModelError, match=reason):
        check_model("a", tmp_path, min_context=24)

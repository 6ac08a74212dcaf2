"""Models on disk: which there are, and whether one can hold a recipe's sequences. No torch needed."""

import json
import os
from pathlib import Path

BASE_MODEL = "tiny-arithmetic"  # made by `python -m training pretrain`


class ModelError(ValueError):
    """No such model, or one that cannot be used; the message says what to do."""


def default_home() -> Path:
    """`HEADROOM_HOME`, by default `var` in the repository."""
    return Path(os.environ.get("HEADROOM_HOME") or Path(__file__).resolve().parent.parent / "var").resolve()


def available_models(home: Path) -> dict[str, Path]:
    """Name -> folder of every model in `home/models`, that is, every folder with a config.json."""
    folder = Path(home) / "models"
    configs = sorted(folder.glob("*/config.json")) if folder.is_dir() else []
    return {path.parent.name: path.parent for path in configs}


def find_model(name_or_path: str, home: Path | None = None) -> Path:
    """The folder of a model given by name or path. Raises ModelError naming the models there are."""
    known = available_models(home or default_home())
    if name_or_path in known:
        return known[name_or_path]
    if "/" in name_or_path and (Path(name_or_path) / "config.json").is_file():
        return Path(name_or_path)
    hint = f"there are: {', '.join(known)}" if known else "there are none yet"
    if name_or_path == BASE_MODEL:
        hint += "; `python -m training pretrain` makes it"
    raise ModelError(f"no model named {name_or_path!r}; {hint}")


def context_tokens(folder: Path) -> int:
    """Longest sequence that the model was made for, in tokens (`max_position_embeddings`)."""
    try:
        return int(json.loads((folder / "config.json").read_text())["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelError(f"{folder}/config.json does not say max_position_embeddings") from None


def check_model(name_or_path: str, home: Path | None = None, *, min_context: int) -> Path:
    """The model's folder, or ModelError where its context is shorter than `min_context` tokens."""
    folder = find_model(name_or_path, home)
    context = context_tokens(folder)
    if context < min_context:
        raise ModelError(
            f"{name_or_path} has a context of {context} tokens; "
            f"the recipe needs {min_context} (prompt, thinking and answer)"
        )
    return folder

"""Models: which there are, and whether one can hold a recipe's sequences. No torch needed.

`model:` of a recipe is the name of a folder in HEADROOM_HOME/models, a path, or an id of the Hugging Face hub
(`org/name`, `org/name@revision`), which is kept in HEADROOM_HOME/models/org--name. What looks like an id is one,
whatever lies in the folder where a program happens to run: a path from there begins with `./`. The tiny models of
`training.lessons` and those of the hub need not be there before a run: its start makes or downloads what is missing.
"""

import functools
import json
import os
import re
from pathlib import Path
from typing import Any

from training.chat import ChatTemplate, ChatTemplateError
from training.flops import WeightsError, count_parameters
from training.lessons import LESSONS
from training.whole_files import read_json

BASE_MODEL = "tiny-arithmetic"
MADE = (
    Path(__file__).parent / "base_models"
)  # taught beforehand; the others are taught where they are first wanted
# model_type of transformers' causal language models that have SDPA attention and, by default, the trainer's head; the
# server need not have transformers, and a test holds the file to it.
FAMILIES = Path(__file__).parent / "families.txt"
HEAD_SETTINGS = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")
HUB_ID = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w][\w./-]*))?")


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


def find_model(name: str, home: Path | None = None) -> Path:
    """The folder of a model given by name, path or id of the hub. Raises ModelError saying what there is."""
    home = home or default_home()
    if place := _place(name, home):
        if os.path.isfile(place / "config.json"):  # unlike Path's, it takes any text for a name
            return place
        if os.path.isdir(place):
            raise ModelError(f"{place} has no config.json")
    hint = what_there_is(home)
    if name in LESSONS:
        hint += f"; `python -m training pretrain{'' if name == BASE_MODEL else f' {name}'}` makes it"
    if is_hub_id(name):
        hint += f"; of the hub, it would be in {hub_folder(name, home)}; a path begins with / or ./"
    raise ModelError(f"no model named {name!r}; {hint}")


def what_there_is(home: Path) -> str:
    """Names of the models here, for an answer to a name that is none of them."""
    known = available_models(home)
    return f"there are: {', '.join(known)}" if known else "there are none yet"


def is_hub_id(name: str) -> bool:
    """Whether it looks like `org/name` or `org/name@revision`."""
    return HUB_ID.fullmatch(name) is not None


def hub_folder(name: str, home: Path) -> Path | None:
    """Where a model of the hub is kept, and where a person may put it; None where the name is no id of the hub."""
    return home / "models" / name.replace("/", "--") if is_hub_id(name) else None


def is_to_be_downloaded(name: str, home: Path | None = None) -> bool:
    """Whether the start of a run will download the model: an id of the hub that is not on this machine."""
    return is_hub_id(name) and not _is_here(name, home) and not os.environ.get("HF_HUB_OFFLINE")


def is_to_be_made(name: str, home: Path | None = None) -> bool:
    """Whether the start of a run will teach the model: a tiny one that is not on this machine."""
    return name in LESSONS and not _is_here(name, home)


def _is_here(name: str, home: Path | None) -> bool:
    place = _place(name, home or default_home())
    return place is not None and os.path.isdir(place)


def _place(name: str, home: Path) -> Path | None:
    """Where a model may be, by its id of the hub, its path or its name; None where it is no name."""
    if (by_id := hub_folder(name, home)) is not None:
        return by_id.absolute()
    if "/" in name:
        return Path(name).absolute()
    return (home / "models" / name).absolute() if name not in (".", "..") else None


def context_tokens(folder: Path) -> int:
    """Longest sequence that the model was made for, in tokens (`max_position_embeddings`)."""
    try:
        return int(json.loads((folder / "config.json").read_text())["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelError(f"{folder}/config.json does not say max_position_embeddings") from None


@functools.cache
def families() -> frozenset[str]:
    """model_type of each language model that can be trained."""
    return frozenset(FAMILIES.read_text().split())


def check_trainable(config_file: Path) -> None:
    """ModelError where the family cannot be trained, or the head: the trainer's logits are the head's weight times the
    last hidden state."""
    config = read_json(config_file)
    inner = config.get("text_config")
    for settings in (config, inner if isinstance(inner, dict) else {}):
        for name in HEAD_SETTINGS:
            if (value := settings.get(name)) not in (None, 1):
                raise ModelError(
                    f"{config_file} sets {name} to {value!r}: log-probabilities would be wrong, "
                    "as the trainer's logits leave it out"
                )
    family = config.get("model_type")
    if not isinstance(family, str) or family not in families():
        said = f"says model_type {str(family)[:80]!r}" if family is not None else "does not say model_type"
        raise ModelError(f"{config_file} {said}: transformers has no such language model that can be trained")


def eos_token_ids(folder: Path) -> list[int]:
    """End-of-sequence ids of config.json and generation_config.json (chat models often end a turn with one that only
    the latter has). ModelError where neither says any."""
    found: list[Any] = []
    for name in ("config.json", "generation_config.json"):
        eos = read_json(folder / name).get("eos_token_id")
        found += eos if isinstance(eos, list) else [eos]
    if not (ids := [int(token) for token in found if isinstance(token, int)]):
        raise ModelError(f"{folder}: neither config.json nor generation_config.json says eos_token_id")
    return list(dict.fromkeys(ids))


def parameter_count(folder: Path) -> int | None:
    """Parameters, by the headers of the weights; None where these cannot be read."""
    try:
        return count_parameters(folder)
    except WeightsError:
        return None


def check_context(name: str, context: int, least: int) -> None:
    """Both in tokens. ModelError where the model's is shorter."""
    if context < least:
        raise ModelError(
            f"the model {name} has a context of {context} tokens; the recipe needs {least} (prompt, thinking "
            "and answer)"
        )


def check_model(
    name: str, home: Path | None = None, *, min_context: int, chat_template: bool = False
) -> Path:
    """The model's folder. ModelError where its context is shorter than `min_context` tokens, where its family or head
    cannot be trained, or where tokenizer, end-of-sequence token, weights or (if asked for) chat template are missing.
    A pad token is not needed."""
    folder = find_model(name, home)
    check_context(name, context_tokens(folder), min_context)
    check_trainable(folder / "config.json")
    if not (folder / "tokenizer.json").is_file():
        raise ModelError(f"{folder} has no tokenizer.json")
    eos_token_ids(folder)
    try:
        count_parameters(folder)
        if chat_template:
            ChatTemplate(folder).render("Hello")
    except WeightsError as error:
        raise ModelError(f"{folder} {error}") from None
    except ChatTemplateError as error:
        raise ModelError(str(error)) from None
    return folder

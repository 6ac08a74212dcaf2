"""`wandb.env`: the variables that are read here, and what they say."""

import os
from typing import Any

from headroom.wandb_shim.settings import FROM_ENVIRONMENT

PROJECT, ENTITY, RUN_ID, NAME, RUN_GROUP, JOB_TYPE, NOTES, TAGS, MODE, DIR, RESUME = FROM_ENVIRONMENT.values()
API_KEY, BASE_URL, SWEEP_ID, SILENT = "WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_SWEEP_ID", "WANDB_SILENT"


def get_project(default: Any = None, env: Any = None) -> Any:
    return (os.environ if env is None else env).get(PROJECT, default)


def get_entity(default: Any = None, env: Any = None) -> Any:
    return (os.environ if env is None else env).get(ENTITY, default)


def get_dir(default: Any = None, env: Any = None) -> Any:
    return (os.environ if env is None else env).get(DIR, default)


def get_run(default: Any = None, env: Any = None) -> Any:
    return (os.environ if env is None else env).get(RUN_ID, default)


def is_offline(env: Any = None) -> bool:
    return (os.environ if env is None else env).get(MODE) == "offline"


def is_silent(env: Any = None) -> bool:
    return (os.environ if env is None else env).get(SILENT, "").lower() in ("1", "true", "yes")

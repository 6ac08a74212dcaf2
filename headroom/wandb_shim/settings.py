"""`wandb.Settings`: what `init` was asked for, by wandb's names of it; what nobody said is None."""

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

FROM_ENVIRONMENT = {
    "project": "WANDB_PROJECT",
    "entity": "WANDB_ENTITY",
    "run_id": "WANDB_RUN_ID",
    "run_name": "WANDB_NAME",
    "run_group": "WANDB_RUN_GROUP",
    "run_job_type": "WANDB_JOB_TYPE",
    "run_notes": "WANDB_NOTES",
    "run_tags": "WANDB_TAGS",
    "mode": "WANDB_MODE",
    "root_dir": "WANDB_DIR",
    "resume": "WANDB_RESUME",
}
MODES_BEFORE = {"dryrun": "offline", "run": "online"}  # as wandb called them


class Settings(SimpleNamespace):
    """Takes anything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return None

    def model_dump(self, **others: Any) -> dict[str, Any]:
        return dict(vars(self))

    def update_from_dict(self, given: Mapping[str, Any]) -> None:
        vars(self).update(given)


def settings_of(given: Mapping[str, Any], settings: Any) -> Settings:
    """Arguments before `settings` (a Settings or a dict) before the environment."""
    environment = {name: os.environ[key] for name, key in FROM_ENVIRONMENT.items() if os.environ.get(key)}
    own = settings if isinstance(settings, Mapping) else vars(settings) if settings is not None else {}
    said = {name: value for name, value in given.items() if value is not None}
    merged = Settings(**{**environment, **{k: v for k, v in own.items() if v is not None}, **said})
    is_disabled = os.environ.get("WANDB_DISABLED", "").lower() in ("1", "true", "yes", "on")
    merged.mode = "disabled" if is_disabled else MODES_BEFORE.get(str(merged.mode), merged.mode)
    tags = merged.run_tags
    merged.run_tags = tuple(tags.split(",") if isinstance(tags, str) else tags or ())
    return merged

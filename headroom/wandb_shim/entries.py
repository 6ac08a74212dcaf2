"""What a script says of its run: `wandb.config` and `run.summary`, dictionaries whose entries are attributes, too, and
that tell what is set; and `wandb.Settings`, what `init` was asked for by wandb's names of it (else None).
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from headroom.wandb_shim.errors import ConfigError

Tell = Callable[[Mapping[str, Any]], None]


def to_mapping(config: Any) -> dict[str, Any]:
    """Of a mapping, a path of a YAML or JSON file, or anything with attributes (an argparse.Namespace, a dataclass,
    absl's FLAGS). Raises ConfigError for a file that cannot be read and for what has no entries."""
    if config is None:
        return {}
    if isinstance(config, str | Path):
        return _from_file(Path(config))
    if isinstance(config, Mapping):
        return {str(key): value for key, value in config.items()}
    if callable(flags := getattr(config, "flag_values_dict", None)):
        return dict(flags())
    try:
        return dict(vars(config))
    except TypeError:
        raise ConfigError(f"config has no entries: it is a {type(config).__name__}") from None


def _from_file(path: Path) -> dict[str, Any]:
    """wandb's files say `name: {value: ..., desc: ...}`, or `name: value`."""
    try:
        text = path.read_text()
        found = json.loads(text) if path.suffix == ".json" else _yaml(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the config file {path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"the config file {path} holds no entries")
    found.pop("wandb_version", None)
    return {
        str(name): each["value"] if isinstance(each, dict) and "value" in each else each
        for name, each in found.items()
    }


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ValueError("install PyYAML, or name a .json file") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


class Entries(dict[str, Any]):
    def __init__(self, entries: Any = None, tell: Tell | None = None) -> None:
        super().__init__(to_mapping(entries))
        object.__setattr__(self, "_tell", tell)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        self._set({name: value})

    def __ior__(self, entries: Any) -> Self:  # type: ignore[override,misc]
        self._set(to_mapping(entries))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, and what another process gets, tells nobody."""
        return type(self), (dict(self),)

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, entries: Any = None, /, **kwargs: Any) -> None:
        self._set(to_mapping(entries) | kwargs)

    def note(self, entries: Mapping[str, Any]) -> None:
        """Set them without telling."""
        super().update(entries)

    def _set(self, entries: Mapping[str, Any]) -> None:
        super().update(entries)
        tell = self.__dict__.get("_tell")
        if tell is not None and entries:
            tell(entries)


class Config(Entries):
    """`wandb.config`: what is set after `init` is sent, too."""

    def update(self, d: Any = None, allow_val_change: bool | None = None, **kwargs: Any) -> None:  # type: ignore[override]
        self._set(to_mapping(d) | kwargs)

    def setdefaults(self, d: Any) -> dict[str, Any]:
        """Set those that are not there yet."""
        self._set({name: value for name, value in to_mapping(d).items() if name not in self})
        return dict(self)

    def update_locked(self, d: Any, user: str | None = None, **others: Any) -> None:
        self._set(to_mapping(d))

    merge_locked = update_locked

    def as_dict(self) -> dict[str, Any]:
        return dict(self)

    def persist(self) -> None:
        """Nothing to do: each change is sent."""


class Summary(Entries):
    """`run.summary`: the newest value of each metric, and what the script sets. The latter is sent as `wandb.summary`
    of the configuration."""

    _json_dict = property(dict)  # what wandb's own example of an export reads


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

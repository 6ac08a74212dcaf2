"""`wandb.sdk` and the like: modules that libraries import by name, made of what is here."""

from types import ModuleType
from typing import Any

from headroom.wandb_shim import (
    artifact,
    data_types,
    entries,
    errors,
    files,
    plot,
    public,
    runs,
    settings,
    util,
)


def _module(name: str, **content: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(content)
    return made


config_util = _module("wandb.sdk.lib.config_util", ConfigError=errors.ConfigError)
runid = _module("wandb.sdk.lib.runid", generate_id=util.generate_id)
disabled = _module("wandb.sdk.lib.disabled", RunDisabled=files.Nothing)
lib = _module(
    "wandb.sdk.lib", config_util=config_util, runid=runid, disabled=disabled, RunDisabled=files.Nothing
)
wandb_run = _module("wandb.sdk.wandb_run", Run=runs.Run)
wandb_config = _module("wandb.sdk.wandb_config", Config=entries.Config)
wandb_summary = _module("wandb.sdk.wandb_summary", Summary=entries.Summary)
wandb_settings = _module("wandb.sdk.wandb_settings", Settings=settings.Settings)
Artifact, Config, Settings, Summary = artifact.Artifact, entries.Config, settings.Settings, entries.Summary
apis = _module("wandb.apis", PublicApi=public.Api, InternalApi=public.Api, public=public)

BY_NAME: dict[str, ModuleType] = {
    "wandb.sdk.lib": lib,
    "wandb.sdk.lib.config_util": config_util,
    "wandb.sdk.lib.runid": runid,
    "wandb.sdk.lib.disabled": disabled,
    "wandb.sdk.wandb_run": wandb_run,
    "wandb.sdk.wandb_config": wandb_config,
    "wandb.sdk.wandb_summary": wandb_summary,
    "wandb.sdk.wandb_settings": wandb_settings,
    "wandb.sdk.data_types": data_types,
    "wandb.wandb_run": wandb_run,
    "wandb.data_types": data_types,
    "wandb.apis": apis,
    "wandb.apis.public": public,
    "wandb.errors": errors,
    "wandb.plot": plot,
    "wandb.util": util,
}

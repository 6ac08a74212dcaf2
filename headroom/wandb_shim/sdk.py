"""`wandb.sdk` and the like: modules that libraries import by name, made of what is here."""

import sys
from types import ModuleType
from typing import Any

from headroom.wandb_shim import (
    data_types,
    entries,
    errors,
    files,
    frameworks,
    plot,
    public,
    runs,
    util,
)

CONTENT: dict[str, dict[str, Any]] = {
    "wandb.sdk.lib.config_util": {"ConfigError": errors.ConfigError},
    "wandb.sdk.lib.runid": {"generate_id": util.generate_id},
    "wandb.sdk.lib.disabled": {"RunDisabled": files.Nothing},
    "wandb.sdk.lib": {"RunDisabled": files.Nothing},
    "wandb.sdk.wandb_run": {"Run": runs.Run},
    "wandb.sdk.wandb_config": {"Config": entries.Config},
    "wandb.sdk.wandb_summary": {"Summary": entries.Summary},
    "wandb.sdk.wandb_settings": {"Settings": entries.Settings},
    "wandb.apis": {"PublicApi": public.Api, "InternalApi": public.Api, "public": public},
}
BY_NAME: dict[str, ModuleType] = {name: ModuleType(name) for name in CONTENT}
for name, content in CONTENT.items():
    vars(BY_NAME[name]).update(content)
BY_NAME |= {
    "wandb.sdk.data_types": data_types,
    "wandb.wandb_run": BY_NAME["wandb.sdk.wandb_run"],
    "wandb.data_types": data_types,
    "wandb.apis.public": public,
    "wandb.errors": errors,
    "wandb.plot": plot,
    "wandb.util": util,
}
BY_NAME |= frameworks.MODULES
for name, module in BY_NAME.items():  # `wandb.sdk.lib.runid` is `runid` of `wandb.sdk.lib`, too
    outer, _, inner = name.rpartition(".")
    vars(BY_NAME[outer] if outer in BY_NAME else sys.modules[__name__])[inner] = module
Artifact, Config, Settings, Summary = files.Artifact, entries.Config, entries.Settings, entries.Summary

"""The safe loader of YAML that is written in C where there is one: it is ten times as fast."""

from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

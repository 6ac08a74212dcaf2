"""How an adapter begins a run: a trainer that has been started is not ended because a server is away."""

import logging
from collections.abc import Mapping
from typing import Any

from headroom.beginning import init
from headroom.run import Run
from headroom.server import ServerError

log = logging.getLogger("headroom")
JOURNAL = "headroom.jsonl"


def begin(settings: Mapping[str, Any]) -> Run:
    """`headroom.init`; offline where the server refuses to make the run. Raises what `init` does otherwise."""
    try:
        return init(**settings)
    except ServerError as error:
        log.warning("headroom: %s; this run is journalled offline, `python -m headroom sync` sends it", error)
        return init(**{**settings, "mode": "offline"})

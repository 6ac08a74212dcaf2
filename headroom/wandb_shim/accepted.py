"""What is accepted though it is not kept: said once of each kind, until the next run begins."""

from collections.abc import Callable, Mapping
from typing import Any

from headroom.warned import Warnings

warn_once = Warnings()
forget = warn_once.said.clear  # as a run begins: each kind is said once of it, too


def accepts(lost: str, answer: Any = None) -> Callable[..., Any]:
    """A function that takes anything, gives `answer`, and warns once of what is `lost`, where that is not empty."""

    def accepted(*args: Any, **kwargs: Any) -> Any:
        if lost:
            warn_once(lost, lost)
        return answer

    return accepted


class Accepting:
    """A class of wandb's. `unkept`: its methods that do nothing here -> what is lost; `answers`: of some of them."""

    def __init_subclass__(
        cls, unkept: Mapping[str, str] | None = None, answers: Mapping[str, Any] | None = None
    ) -> None:
        for name, lost in (unkept or {}).items():
            setattr(cls, name, accepts(lost, (answers or {}).get(name)))

    def __getattr__(self, name: str) -> Any:
        """For type checkers: there are more names than they see."""
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

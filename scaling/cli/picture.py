"""`--plot FILE`: the picture beside the numbers. Plotly is loaded only here, and only when it is asked for."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from scaling.cli.options import CommandError


def check(path: Path | None) -> None:
    """Raises CommandError for a picture that cannot be drawn, before anything is computed."""
    if path is not None:
        plot = _plot()
        try:
            plot.check(path)
        except plot.PlotError as error:
            raise CommandError(f"{path}: {error}") from None


def draw(path: Path | None, figure: Callable[[ModuleType], Any]) -> None:
    """Write the figure that `figure` makes with `scaling.plot`; nothing without a path."""
    if path is None:
        return
    plot = _plot()
    try:
        plot.write(figure(plot), path)
    except plot.PlotError as error:
        raise CommandError(f"{path}: {error}") from None


def _plot() -> ModuleType:
    from scaling import plot

    return plot

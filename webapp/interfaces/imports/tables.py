"""Tables: what their columns are, as somebody says or as their names suggest."""

from dataclasses import replace
from pathlib import Path

from webapp.base.errors import InvalidInput
from webapp.interfaces.imports.apart import guess_kind, preview
from webapp.interfaces.imports.readers.guessing import in_percent
from webapp.interfaces.imports.readers.rows import BadSource, Options, Preview
from webapp.interfaces.imports.readers.table import METRIC_ROLES

PASS_RATES = {"pass_rate", "pass_rate_stderr"}  # may be named alone, also before anybody has seen the columns


def kind_of(path: Path) -> str | None:
    """What kind of source a file is; None where it cannot be told. Raises InvalidInput (files)."""
    try:
        return guess_kind(path)
    except BadSource as error:
        raise InvalidInput("files", str(error)) from error


def preview_of(kind: str, path: Path, options: Options) -> Preview:
    """The beginning of a table. Raises InvalidInput (kind, files)."""
    try:
        return preview(kind, path, options)
    except BadSource as error:
        raise InvalidInput("files", str(error)) from error
    except ValueError as error:
        raise InvalidInput("kind", f"kind: {error}.") from error


def mapping_of(kind: str, path: Path, options: Options) -> Options:
    """The options with every column checked against the table; without columns those that their names say.

    Raises InvalidInput (options.columns, options.columns.ROLE, options.percent, files).
    """
    shown = preview_of(kind, path, options)
    if not options.columns.keys() - PASS_RATES:
        guess = {role: name for role, name in shown.guess.columns.items() if role not in shown.asked}
        if "step" not in guess:
            raise InvalidInput("options.columns", f"options.columns is required. {' '.join(shown.unclear)}")
        options = replace(options, columns={**guess, **options.columns})
    for role, name in options.columns.items():
        is_metric = "metric" in options.columns and role in METRIC_ROLES  # there it is the name of a metric
        if name not in shown.columns and not is_metric:
            raise InvalidInput(
                f"options.columns.{role}", f"options.columns.{role}: there is no column {name[:80]}."
            )
    _check_percent(shown, options)
    return options


def _check_percent(shown: Preview, options: Options) -> None:
    """Raises InvalidInput where the pass rate seems to be in percent and nobody has said so, or the other way round."""
    name = options.columns.get("pass_rate")
    if options.percent and name is None:
        raise InvalidInput(
            "options.percent", "options.percent: say which column is the pass rate that is in percent."
        )
    if options.percent or name not in shown.columns:
        return
    position = shown.columns.index(name)
    if in_percent([row[position] for row in shown.rows]):
        raise InvalidInput(
            "options.percent",
            f"options.percent: {name[:80]} is to be the pass rate, and goes beyond 1: where it is in percent, say so.",
        )

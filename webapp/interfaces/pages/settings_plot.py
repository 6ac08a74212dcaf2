"""Settings of runs against what came of them: what the third tab of a comparison draws. Pure functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scaling.course import normal_quantile
from webapp.interfaces.pages.configuration import scalar, settings_of
from webapp.record.runs.ingest import summary_of
from webapp.record.runs.models import Run
from webapp.science.curves import words
from webapp.science.curves.answers import shown
from webapp.science.curves.comparison.entries import Entry
from webapp.science.curves.words import AXES, DEFAULT_LEVEL

Estimate = tuple[float | None, float | None, float | None]  # a value and the ends of its interval
NOTHING: Estimate = (None, None, None)
MOST_WORDS = 12  # different values of a setting in words; what has more names each run and sets nothing
LOG_FROM = 20.0  # times the least of a setting's values the greatest is: its axis is logarithmic
CEILING = "ceiling"


@dataclass(frozen=True)
class Column:
    """A setting or an outcome of each run [n], None where a run has none. scale: linear, log or words; values are
    numbers, or words. lo, hi: intervals of an outcome that has some."""

    key: str
    label: str
    scale: str
    values: tuple[float | str | None, ...]
    lo: tuple[float | None, ...] = ()
    hi: tuple[float | None, ...] = ()

    def cell(self, place: int) -> str:
        """A value as the table has it, with its interval."""
        value = self.values[place]
        if value is None or isinstance(value, str):
            return value or "–"
        interval = (self.lo[place], self.hi[place]) if self.lo else (None, None)
        if interval == (None, None):
            return words.amount(value) if self.key == "hours" else f"{value:.4g}"
        said = shown({"b": "B", "c_mid": "C_mid"}.get(self.key, "A"), value, interval)
        return f"{said['value_text']} ({said['interval_text']})"


@dataclass(frozen=True)
class SettingsPlot:
    """settings: those that differ. outcomes: those that any run has. left_out: settings in too many words."""

    settings: tuple[Column, ...]
    outcomes: tuple[Column, ...]
    left_out: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Settings, then outcomes."""
        return self.settings + self.outcomes

    @property
    def payload(self) -> list[dict[str, Any]]:
        """The columns, JSON-ready."""
        return [asdict(column) for column in self.columns]


def settings_plot(
    entries: Sequence[Entry], x: str, newest: Mapping[str, Sequence[float | None]] | None = None
) -> SettingsPlot:
    """The columns of entries of one run each; x: the axis of their forecasts and fits. newest: metric -> its newest
    value in each run, where it is an outcome, too."""
    configs = [settings_of(entry.runs[0].config or {}) for entry in entries]
    paths = list(dict.fromkeys(path for config in configs for path in config))
    found = [_setting(path, [config.get(path) for config in configs]) for path in paths]
    differing = [column for column in found if len(set(column.values)) > 1]
    kept = tuple(column for column in differing if not _is_name(column))
    left_out = tuple(column.key for column in differing if _is_name(column))
    outcomes = [_outcome(key, label, entries, said) for key, label, said in _outcomes(x)]
    nowhere = (None,) * len(entries)
    for metric, values in (newest or {}).items():
        outcomes.append(Column(metric, f"{metric}, newest", "linear", tuple(values), nowhere, nowhere))
    there = tuple(column for column in outcomes if any(value is not None for value in column.values))
    return SettingsPlot(kept, there, left_out)


def _is_name(column: Column) -> bool:
    return column.scale == "words" and len(set(column.values)) > MOST_WORDS


def _setting(path: str, values: Sequence[Any]) -> Column:
    there = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        is_wide = min(there) > 0 and max(there) >= LOG_FROM * min(there)
        return Column(path, path, "log" if is_wide else "linear", tuple(values))
    said = tuple(None if value is None else scalar(value) for value in values)
    return Column(path, path, "words", said)


def _outcomes(x: str) -> list[tuple[str, str, Callable[[Entry], Estimate]]]:
    """(key, label, what an entry has) of everything that may come of a run."""
    return [
        (CEILING, "Forecast ceiling", _ceiling),
        ("pass_rate", "Pass rate now", _pass_rate),
        ("b", "B, how steep", lambda entry: _parameter(entry, "B")),
        ("c_mid", f"C_mid, {AXES[x].label.lower()}", lambda entry: _parameter(entry, "C_mid")),
        ("hours", "Device-hours used", lambda entry: _plain(summary_of(_run(entry)).used_hours)),
    ]


def _outcome(key: str, label: str, entries: Sequence[Entry], said: Callable[[Entry], Estimate]) -> Column:
    values, lo, hi = zip(*map(said, entries), strict=True)
    return Column(key, label, "linear", values, lo, hi)


def _run(entry: Entry) -> Run:
    return entry.runs[0]


def _plain(value: float | None) -> Estimate:
    return value, None, None


def _pass_rate(entry: Entry) -> Estimate:
    """The newest evaluation, with its error on prompts and samples."""
    summary = summary_of(_run(entry))
    if summary.pass_rate is None or summary.pass_rate_stderr is None:
        return _plain(summary.pass_rate)
    half = normal_quantile(DEFAULT_LEVEL) * summary.pass_rate_stderr
    return summary.pass_rate, max(0.0, summary.pass_rate - half), min(1.0, summary.pass_rate + half)


def _ceiling(entry: Entry) -> Estimate:
    course = entry.courses[0] if entry.courses else None
    if course is None or course.ceiling is None or course.interval is None:
        return NOTHING
    return course.ceiling, *course.interval


def _parameter(entry: Entry, name: str) -> Estimate:
    return entry.parameters[name] if entry.parameters else NOTHING

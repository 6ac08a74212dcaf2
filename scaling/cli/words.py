"""Numbers as people read them: never without an interval, and said in words where there is none."""

from collections.abc import Iterable, Sequence

from scaling.models import Fit


def interval_text(interval: Sequence[float | None], digits: int = 5) -> str:
    """ "0.58 to 0.62", "at least 0.58", "at most 0.62" or "unbounded"; open ends are None."""
    lo, hi = (None if end is None else f"{end:.{digits}g}" for end in interval)
    if lo is None and hi is None:
        return "unbounded"
    if hi is None:
        return f"at least {lo}"
    return f"at most {hi}" if lo is None else f"{lo} to {hi}"


def window_text(window: Sequence[float]) -> str:
    return f"{window[0]:g} to {window[1]:g}"


def level_text(level: float) -> str:
    return f"{100 * level:g} %"


def run_payload(file: str, fitted: Fit) -> dict:
    """A run in a few numbers; the ceiling is None where it is not identified, and its interval open."""
    known = fitted.status == "ok" and fitted.params is not None
    return {
        "file": file,
        "status": fitted.status,
        "message": fitted.message,
        "n": fitted.n,
        "so_far": fitted.window[1],
        "ceiling": fitted.params["A"] if known and fitted.params else None,
        "interval": list(fitted.interval("A")),
    }


def runs_text(runs: Sequence[dict], level: float) -> list[str]:
    """A table of runs: file, ceiling, interval, and the message of each that has no ceiling."""
    width = max(8, *(len(run["file"]) for run in runs))
    lines = [f"{'':<{width}} {'ceiling':>12}   {level_text(level)} interval"]
    for run in runs:
        value = "not known" if run["ceiling"] is None else f"{run['ceiling']:.6g}"
        lines.append(f"{run['file']:<{width}} {value:>12}   {interval_text(run['interval'])}")
    return lines + [f"{run['file']}: {run['message']}" for run in runs if run["message"]]


def prior_text(runs: Sequence[dict], compute: float | None) -> str:
    """A warning where a probability at `compute` (None: the ceiling) is the prior's word more than the data's."""
    beyond = [
        run["file"]
        for run in runs
        if run["status"] == "not_identified" and (compute is None or compute > run["so_far"])
    ]
    if not beyond:
        return ""
    has = "has" if len(beyond) == 1 else "have"
    return f" (rests on the prior: {', '.join(beyond)} {has} no identified ceiling)"


def markdown(title: str, note: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table under a heading and a line of explanation."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([f"## {title}", "", note, "", *lines, ""])

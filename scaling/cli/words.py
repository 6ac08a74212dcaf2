"""Numbers as people read them: never without an interval, and said in words where there is none."""

from collections.abc import Iterable, Sequence

from scaling.course import Course


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


def run_payload(file: str, course: Course) -> dict:
    """A run in a few numbers; the forecast ceiling is None where it is not known, its interval None where failed."""
    return {
        "file": file,
        "status": course.status,
        "message": course.message,
        "so_far": course.seen,
        "ceiling": course.ceiling if course.known else None,
        "interval": None if course.interval is None else list(course.interval),
    }


def runs_text(runs: Sequence[dict], level: float) -> list[str]:
    """A table of runs: file, ceiling, interval, and the message of each that has no ceiling."""
    width = max(8, *(len(run["file"]) for run in runs))
    lines = [f"{'':<{width}} {'ceiling':>12}   {level_text(level)} interval, by forecast"]
    for run in runs:
        value = "not known" if run["ceiling"] is None else f"{run['ceiling']:.6g}"
        lines.append(f"{run['file']:<{width}} {value:>12}   {interval_text(run['interval'] or (None, None))}")
    return lines + [f"{run['file']}: {run['message']}" for run in runs if run["message"]]


def markdown(title: str, note: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table under a heading and a line of explanation."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([f"## {title}", "", note, "", *lines, ""])

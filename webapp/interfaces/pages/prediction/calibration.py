"""The calibration page as data: observed coverage against what was claimed, with its own uncertainty, and in words."""

from collections.abc import Sequence
from typing import Any

from webapp.science.curves import words
from webapp.science.predictions.calibration import Calibration, Counts, Row

Payload = dict[str, Any]
FEW = 5  # scored intervals below which nothing is said
BY = ("level", "horizon", "author", "recipe", "statement")


def calibration_figure(found: Calibration, by: str) -> Payload:
    """{"by", "rows", "bins", "confidence"}: shares in [0, 1]; rows without anything scored are left out."""
    return {
        "by": by,
        "title": by,
        "confidence": found.confidence,
        "rows": [
            {
                "label": row.label, "claimed": row.claimed, "observed": row.observed, "lo": row.lo, "hi": row.hi,
                "n": row.n, "few": row.n < FEW, "text": f"{row.inside} of {row.n} inside",
            }
            for row in found.of(by)
            if row.n
        ],
        "bins": [
            {"mean": one.mean, "happened": one.happened, "lo": one.lo, "hi": one.hi, "n": one.n}
            for one in found.probabilities.bins
        ],
    }  # fmt: skip


def verdict(row: Row) -> str:
    """What the coverage of a group says; of few claims, that they are too few."""
    if not row.n:
        return "nothing scored yet"
    return f"too few to say: {words.count(row.n, 'scored interval')}" if row.n < FEW else row.words


def headline(row: Row) -> str:
    """The answer of the page in a sentence."""
    if not row.n or row.claimed is None or row.observed is None or row.lo is None or row.hi is None:
        return "No interval is judged yet."
    share = f"{row.inside} of {words.count(row.n, 'interval')} held what came"
    claimed = f"where {words.share_text(row.claimed)} was claimed"
    between = f"90 % {words.share_text(row.lo)} to {words.share_text(row.hi)}"
    return f"{share} ({words.share_text(row.observed)}, {between}), {claimed}: {verdict(row)}."


def dependence(row: Row) -> str:
    """That several claims were judged by one run, where they were."""
    if not row.n or row.runs >= row.n:
        return ""
    return (
        f"They were judged by {words.count(row.runs, 'run')} only: what one run does decides several claims at once, "
        "so the uncertainty drawn here is too small."
    )


def apart(counts: Counts) -> str:
    """What is not in the numbers, and how many of each."""
    projections = "projection" if counts.projection == 1 else "projections"
    said = (
        (counts.open, "open"), (counts.projection, projections), (counts.withdrawn, "withdrawn"),
        (counts.replaced, "replaced"),
    )  # fmt: skip
    if not (parts := [f"{number} {what}" for number, what in said if number]):
        return "Every prediction is scored."
    return f"Not counted above: {', '.join(parts)}, of {words.count(counts.total, 'prediction')} in all."


def warnings(counts: Counts) -> list[str]:
    """What else a reader must know to trust the numbers."""
    found = []
    if counts.pending:
        found.append(
            f"{words.count(counts.pending, 'claim')}: a run has passed the target, but cannot tell yet."
        )
    if counts.measured_before:
        found.append(
            f"{words.count(counts.measured_before, 'outcome')} rest on evaluations that, by the trainer's clock, are "
            "older than the claim."
        )
    return found


def row_cells(rows: Sequence[Row]) -> list[Payload]:
    """Rows of the table, in words."""
    return [
        {
            "row": row,
            "claimed": "–" if row.claimed is None else words.share_text(row.claimed),
            "observed": "–" if row.observed is None else words.share_text(row.observed),
            "interval": "–"
            if row.lo is None or row.hi is None
            else f"{words.share_text(row.lo)} to {words.share_text(row.hi)}",
            "score": _number(row.interval_score),
            "width": _number(row.width),
            "error": "–" if row.mean_error is None else words.signed(row.mean_error),
            "verdict": verdict(row),
        }
        for row in rows
    ]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"

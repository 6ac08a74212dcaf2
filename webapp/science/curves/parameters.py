"""The parameters of a fit as rows of words: value, interval, and what is not identified said so."""

import scaling
from webapp.science.curves import answers, words

HTML_NAMES = {"C_mid": "C<sub>mid</sub>", "R0": "R<sub>0</sub>"}
MEANINGS = {
    "A": "ceiling",
    "B": "steepness",
    "C_mid": "compute at half of the gain",
    "R0": "pass rate at the start",
}


def parameter_rows(fit: "scaling.Fit", level: float) -> list[dict[str, str]]:
    """Parameters with their intervals in words; A without a point where it is not identified."""
    if not fit.params:
        return []
    return [_row(fit, name) for name in ("A", "B", "C_mid", "R0")]


def _row(fit: "scaling.Fit", name: str) -> dict[str, str]:
    assert fit.params is not None
    value, (lo, hi) = fit.params[name], fit.interval(name)
    row = {"name": name, "html_name": HTML_NAMES.get(name, name), "meaning": MEANINGS[name]}
    if fit.status != "ok" and name != "R0":  # where the curve starts is known before where it ends
        bound = fit.at_least() if name == "A" else None
        text = f"at least {answers.floored(bound)}" if bound is not None else "not identified"
        return row | {"value_text": "–", "interval_text": text}
    return row | shown(name, value, (lo, hi))


def shown(name: str, value: float, interval: words.Interval) -> dict[str, str]:
    """ "value_text" and "interval_text" of a parameter."""
    ends = [_text(name, end, interval) if end is not None else "open" for end in interval]
    return {"value_text": _text(name, value, interval), "interval_text": f"{ends[0]} to {ends[1]}"}


def _text(name: str, value: float, interval: words.Interval) -> str:
    if name == "B":
        return f"{value:.2f}"
    return words.amount(value) if name == "C_mid" else words.rate(value, interval)

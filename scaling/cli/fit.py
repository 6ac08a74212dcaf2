"""`python -m scaling fit FILE.csv`: one fit."""

import argparse
from collections.abc import Sequence

from scaling import plot
from scaling.cli.options import (
    add_fitting,
    add_output,
    fit_file,
    interval_text,
    level_text,
    positive,
    show,
    window_text,
)
from scaling.curve import NAMES
from scaling.extrapolate import Extrapolation, extrapolate
from scaling.models import Fit
from scaling.points import Points


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser("fit", help="fit a file of compute and reward")
    option = parser.add_argument
    option("file", metavar="FILE.csv")
    add_fitting(option)
    option(
        "--predict",
        type=positive,
        action="append",
        default=[],
        metavar="C",
        help="predict here; may be repeated",
    )
    add_output(option, plot=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    if args.plot is not None:
        plot.check(args.plot)
    fitted = fit_file(args.file, args)
    if args.plot is not None:
        plot.write(plot.compare_figure({args.file: fitted}), args.plot)
    show(describe(fitted, args.predict), render, args.json)


def describe(fitted: Fit, predict: Sequence[float] = ()) -> dict:
    """The fit as JSON-ready numbers, None where a value does not exist; a prediction's interval is the mean curve's.

    forecast: of several forms averaged (`scaling.extrapolate`), for compute without bound; forecasts: where asked for.
    """
    ahead = averaged(fitted.data, predict, fitted.level)
    payload = {
        "form": fitted.form,
        "method": fitted.method,
        "status": fitted.status,
        "message": fitted.message,
        "params": fitted.params,
        "level": fitted.level,
        "intervals": {name: list(fitted.interval(name)) for name in NAMES},
        "sse": fitted.sse,
        "r2": fitted.r2,
        "n": fitted.n,
        "window": list(fitted.window),
        "predictions": [_prediction(fitted, c) for c in predict],
        "forecast": {
            "ceiling": ahead.ceiling,
            "interval": list(ahead.ceiling_interval or (None, None)),
            "status": ahead.status,
            "message": ahead.message,
        },
    }
    if predict:
        payload["forecasts"] = [_forecast(ahead, k) for k in range(len(predict))]
    return payload


def averaged(data: Points | None, at: Sequence[float], level: float) -> Extrapolation:
    """The forecast of several forms from the points of a fit; `at`: their last compute where none is given."""
    assert data is not None
    return extrapolate(
        data.compute,
        data.reward,
        at or [data.compute[-1]],
        level=level,
        stderr=data.stderr,
        r0_observed=data.r0_observed.tolist(),
    )


def _forecast(ahead: Extrapolation, k: int) -> dict:
    known = ahead.status != "failed"
    return {
        "compute": float(ahead.at[k]),
        "value": float(ahead.value[k]) if known else None,
        "interval": [float(ahead.lo[k]), float(ahead.hi[k])] if known else [None, None],
    }


def render(payload: dict) -> str:
    """The same for people: a ceiling is never shown without its interval or the words that it is not known."""
    lines = [f"{payload['form']} fit of {payload['n']} points, compute {window_text(payload['window'])}"]
    lines.append(f"status   {payload['status']}" + (f": {payload['message']}" if payload["message"] else ""))
    if payload["params"] is not None:
        lines.append(f"{'':<8} {'value':>12}   {level_text(payload['level'])} interval")
        for name in NAMES:
            lines.append(_row(payload, name))
        r2 = payload["r2"]
        lines.append(f"SSE {payload['sse']:.6g}   R2 {'-' if r2 is None else format(r2, '.4f')}")
        lines += [_at(p, "") for p in payload["predictions"]]
    ahead = payload["forecast"]
    if ahead["status"] == "failed":
        return "\n".join([*lines, f"no forecast: {ahead['message']}"])
    value = f"{ahead['ceiling']:.4f}" if ahead["status"] == "ok" else "not known"
    lines.append(
        f"forecast of several forms averaged, compute without bound: {value}   {interval_text(ahead['interval'])}"
    )
    if ahead["message"]:
        lines.append(ahead["message"])
    lines += [_at(p, "forecast ") for p in payload.get("forecasts", [])]
    return "\n".join(lines)


def _at(p: dict, what: str) -> str:
    return f"{what}at {p['compute']:<10g} {p['value']:.4f}   {interval_text(p['interval'])}"


def _row(payload: dict, name: str) -> str:
    unknown = name == "A" and payload["status"] != "ok"
    value = "not known" if unknown else f"{payload['params'][name]:.6g}"
    return f"{name:<8} {value:>12}   {interval_text(payload['intervals'][name])}"


def _prediction(fitted: Fit, compute: float) -> dict:
    if fitted.params is None:
        return {"compute": compute, "value": None, "interval": [None, None]}
    lo, hi = fitted.predict_interval(compute)
    return {"compute": compute, "value": float(fitted.predict(compute)), "interval": [float(lo), float(hi)]}

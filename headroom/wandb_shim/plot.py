"""`wandb.plot`: charts of a table. Headroom draws none of them; their tables are kept where artifacts are."""

from collections.abc import Iterable, Mapping
from typing import Any

from headroom.wandb_shim.accepted import accepts
from headroom.wandb_shim.data_types import CustomChart, Table

Visualize = CustomChart


def line(
    table: Table, x: str, y: str, stroke: str | None = None, title: str = "", **others: Any
) -> CustomChart:
    return CustomChart("line", table, {"x": x, "y": y, "stroke": stroke}, title)


def scatter(table: Table, x: str, y: str, title: str = "", **others: Any) -> CustomChart:
    return CustomChart("scatter", table, {"x": x, "y": y}, title)


def bar(table: Table, label: str, value: str, title: str = "", **others: Any) -> CustomChart:
    return CustomChart("bar", table, {"label": label, "value": value}, title)


def histogram(table: Table, value: str, title: str = "", **others: Any) -> CustomChart:
    return CustomChart("histogram", table, {"value": value}, title)


def line_series(
    xs: Iterable[Any],
    ys: Iterable[Iterable[Any]],
    keys: Iterable[str] | None = None,
    title: str = "",
    xname: str = "x",
    **others: Any,
) -> CustomChart:
    """`xs`: of all series, or a sequence for each."""
    series = [list(each) for each in ys]
    places = list(xs)
    if not places or not isinstance(places[0], Iterable) or isinstance(places[0], str):
        places = [places] * len(series)
    names = list(keys) if keys is not None else [f"line_{i}" for i in range(len(series))]
    rows = [
        [x, name, y]
        for name, each_x, each_y in zip(names, places, series, strict=False)
        for x, y in zip(each_x, each_y, strict=False)
    ]
    table = Table(columns=[xname, "line", "y"], data=rows)
    return CustomChart("line_series", table, {"x": xname, "y": "y", "stroke": "line"}, title)


roc_curve = pr_curve = confusion_matrix = accepts("curves of classifiers are not drawn: log their numbers")


def plot_table(
    vega_spec_name: str,
    data_table: Table,
    fields: Mapping[str, Any],
    string_fields: Mapping[str, Any] | None = None,
    **others: Any,
) -> CustomChart:
    return CustomChart(vega_spec_name, data_table, {**fields, **(string_fields or {})})


custom_chart = plot_table


def visualize(id: str, value: Table) -> CustomChart:  # noqa: A002  # wandb's name
    return CustomChart(id, value, {})

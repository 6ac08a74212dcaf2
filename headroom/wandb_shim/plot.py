"""`wandb.plot`: charts of a table. Headroom draws none of them; their tables are kept where artifacts are."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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


def roc_curve(
    y_true: Iterable[Any],
    y_probas: Iterable[Any] | None = None,
    labels: Sequence[str] | None = None,
    classes_to_plot: Sequence[Any] | None = None,
    title: str = "ROC Curve",
    **others: Any,
) -> CustomChart:
    return _scored("roc_curve", y_true, y_probas, title)


def pr_curve(
    y_true: Iterable[Any] | None = None,
    y_probas: Iterable[Any] | None = None,
    labels: Sequence[str] | None = None,
    classes_to_plot: Sequence[Any] | None = None,
    interp_size: int = 21,
    title: str = "Precision-Recall Curve",
    **others: Any,
) -> CustomChart:
    return _scored("pr_curve", y_true, y_probas, title)


def _scored(
    kind: str, y_true: Iterable[Any] | None, y_probas: Iterable[Any] | None, title: str
) -> CustomChart:
    """With the scores themselves: each curve follows from them."""
    scores = [list(each) if isinstance(each, Iterable) else [each] for each in _listed(y_probas)]
    widest = max(map(len, scores), default=0)
    rows = [[label, *score] for label, score in zip(_listed(y_true), scores, strict=False)]
    table = Table(columns=["label", *(f"score_{i}" for i in range(widest))], data=rows)
    return CustomChart(kind, table, {"label": "label"}, title)


def confusion_matrix(
    probs: Iterable[Any] | None = None,
    y_true: Iterable[Any] | None = None,
    preds: Iterable[Any] | None = None,
    class_names: Sequence[str] | None = None,
    title: str = "Confusion Matrix Curve",
    **others: Any,
) -> CustomChart:
    """How often each class was taken for each: by `preds`, or the largest of `probs`."""
    actual = _listed(y_true)
    guessed = _listed(preds) if preds is not None else [_largest(list(row)) for row in _listed(probs)]
    counted = Counter(zip(actual, guessed, strict=False))

    def name(label: Any) -> Any:
        known = class_names is not None and isinstance(label, int) and 0 <= label < len(class_names)
        return class_names[label] if known and class_names is not None else label

    rows = [[name(one), name(other), count] for (one, other), count in counted.items()]
    table = Table(columns=["Actual", "Predicted", "nPredictions"], data=rows)
    return CustomChart("confusion_matrix", table, {}, title)


def _listed(values: Any) -> list[Any]:
    if values is None:
        return []
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _largest(scores: list[Any]) -> int:
    return max(range(len(scores)), key=scores.__getitem__)


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

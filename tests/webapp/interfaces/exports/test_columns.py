"""Names of metrics as columns of a wide table, and back."""

from webapp.interfaces.exports.columns import OWN, column_of, metric_of


def test_no_two_metrics_share_a_column_and_none_has_one_of_ours() -> None:
    names = [
        "loss",
        "metric.loss",
        "eval/pass_rate",
        *OWN,
        *(f"metric.{name}" for name in OWN),
        "metric.metric.step",
    ]

    columns = [column_of(name) for name in names]

    assert len(set(columns)) == len(names) and not OWN & set(columns)
    assert [metric_of(column) for column in columns] == names
    assert columns[:3] == names[:3]

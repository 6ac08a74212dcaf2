"""What a block of a report shows of numbers, predictions and decisions."""

import pytest

from tests.webapp.reporting.reports.conftest import block
from webapp.reporting.reports.document import read
from webapp.reporting.reports.resolve import shown


def shown_of(project, **fields):
    (ask,) = read(block(**fields))
    return shown(project, ask)


@pytest.mark.parametrize(
    ("number", "told", "of_a_young_run"),
    [
        ("ceiling", ("0.601", "90 % 0.597 to 0.605"), ("not identified yet", "no fit yet")),
        ("pass_rate", ("0.60", "newest evaluation, ± 0.010"), ("–", "no evaluation yet")),
        (
            "forecast",
            ("0.60", "90 % 0.59 to 0.62, at 16.0 device-hours"),
            ("–", "no forecast, or no budget"),
        ),
        ("compute", ("8.00", "of 16.0 device-hours"), ("0", "of 16.0 device-hours")),
    ],
)
def test_a_number_has_its_interval_and_says_what_is_not_known(
    make_run, project, number, told, of_a_young_run
):
    for run, (value, sentence) in ((make_run(16), told), (make_run(0, seed=1), of_a_young_run)):
        found = shown_of(project, number=number, run=run.pk)
        assert (found["kind"], found["link"]) == ("number", f"/runs/{run.pk}")
        assert (found["value"], found["sentence"]) == (value, sentence)


@pytest.mark.parametrize("what", ["prediction", "decision"])
def test_what_is_not_in_the_project_is_a_problem_of_its_line(project, what):
    found = shown_of(project, **{what: "nothing"})

    assert found["kind"] == "problem" and f"here is no {what} nothing in this project." in found["reason"]

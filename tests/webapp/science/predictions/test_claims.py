"""A prediction and what came of it, in words: the same on every page, in reports and in the decision log."""

from types import SimpleNamespace

import pytest

from webapp.record.runs.models import Point, Run, Series
from webapp.reporting.reports import resolve
from webapp.reporting.reports.document import read
from webapp.science.curves.fitting import Question
from webapp.science.predictions import claims
from webapp.science.predictions.claims import Claim


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (Claim("pass_rate", 3600.0, Question(), 0.583, 0.56, 0.61),
         "pass rate 0.583 at 3,600 device-hours, 90 % 0.560 to 0.610"),
        (Claim("ceiling", 3600.0, Question(level=0.5), 0.61, 0.6, 0.62),
         "ceiling 0.610, 50 % 0.600 to 0.620, judged at 3,600 device-hours"),
        (Claim("passes", 10.0, rival=Run(name="GRPO", seed=3), probability=0.8),
         "passes GRPO, seed 3 by 10.0 device-hours, with probability 0.8"),
        (Claim("pass_rate", 5e9, Question("tokens", metric="eval/code/pass_rate"), 0.5, 0.4, 0.6),
         "pass rate on code 0.50 at 5.00e9 tokens, 90 % 0.40 to 0.60"),
    ],
)  # fmt: skip
def test_a_statement_says_all_of_it(claim, words):
    assert claims.statement_words(claim) == words


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"actual": 0.61, "actual_lo": 0.6, "actual_hi": 0.62, "inside": True, "error": 0.01, "interval_score": 0.05},
         "came at 0.61 (0.60 to 0.62), inside the interval; error +0.010, interval score 0.050"),
        ({"actual": 0.5, "inside": False, "error": -0.1, "interval_score": 2.0},
         "came at 0.500, outside the interval; error −0.100, interval score 2.000"),
        ({"happened": False, "probability_score": 0.64}, "it did not pass; Brier score 0.640"),
    ],
)  # fmt: skip
def test_outcomes_in_words(outcome, words):
    empty = dict.fromkeys(
        (
            "actual",
            "actual_lo",
            "actual_hi",
            "inside",
            "error",
            "interval_score",
            "happened",
            "probability_score",
        )
    )

    assert claims.outcome_words(SimpleNamespace(**empty | outcome)) == words


def test_a_line_names_the_rival_by_its_recipe(freeze, make_run, other_revision):
    rival = make_run(a=0.5, revision=other_revision, name="seed 3, again")
    frozen = freeze(statement="passes", rival=rival, probability=0.8)

    assert claims.in_a_line(frozen) == "Passes GRPO rev 1 by 16.0 device-hours, with probability 0.8"


def test_a_line_and_a_report_name_the_part_of_a_mixture(freeze, run, project):
    series = Series.objects.create(run=run, metric="eval/code/pass_rate")
    Point.objects.filter(series__run=run).update(series=series)
    frozen = freeze(question={"x": "device_hours", "metric": "eval/code/pass_rate"})

    block = resolve.shown(project, read(f"```headroom\nprediction: {frozen.pk}\n```")[0])

    assert claims.in_a_line(frozen).startswith("Pass rate on code 0.")
    assert ["Claim", claims.in_a_line(frozen)] in block["facts"]
    assert dict(block["facts"])["Made"].endswith("fitted up to 8.00 device-hours")

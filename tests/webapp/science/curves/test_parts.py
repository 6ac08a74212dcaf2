"""Runs on a mixture of tasks: one curve overall, one for each part."""

import pytest

from tests.webapp.interfaces.pages.data import PARTS, mixture_records
from tests.webapp.record.runs.conftest import make_record, tracked, user  # noqa: F401 (fixtures)
from webapp.record.runs import ingest
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import is_pass_rate, part_of, pass_rates_of
from webapp.science.curves import services
from webapp.science.curves.comparison.compare import comparison
from webapp.science.curves.fitting import Question
from webapp.science.curves.models import Fit
from webapp.science.curves.run.figure import run_figure
from webapp.science.curves.selectors import latest_ids

OVERALL = "eval/pass_rate"


@pytest.fixture
def project(db):
    from webapp.identity.accounts.services import create_project

    return create_project(slug="math", name="Math")


@pytest.fixture
def mixture(tracked):  # noqa: F811
    ingest.store_records(tracked, mixture_records(0, 30))
    return tracked


@pytest.mark.parametrize(
    ("metric", "part"),
    [
        ("eval/pass_rate", None),
        ("eval/math/pass_rate", "math"),
        ("eval/math/hard/pass_rate", "math/hard"),
    ],
)
def test_pass_rates_and_their_parts(metric, part):
    assert is_pass_rate(metric)
    assert part_of(metric) == part


@pytest.mark.parametrize(
    "metric", ["train/pass_rate", "eval/pass_rate_stderr", "eval//pass_rate", "pass_rate", ""]
)
def test_other_metrics_are_no_curves(metric):
    assert not is_pass_rate(metric)


def test_each_part_is_refitted_and_the_overall_fit_is_told(mixture):
    result = services.refit(mixture.pk)

    fits = {fit.metric: fit for fit in Fit.objects.all()}
    assert fits.keys() == {OVERALL, *(f"eval/{part}/pass_rate" for part in PARTS)}
    assert (result.fit.metric, result.created) == (OVERALL, True)
    for part, ceiling in PARTS.items():
        lo, hi = fits[f"eval/{part}/pass_rate"].intervals["A"]
        assert lo < ceiling < hi
    assert services.refit(mixture.pk).created is False


def test_a_part_alone_wishes_a_refit(tracked, make_record):  # noqa: F811
    ingest.store_records(tracked, [make_record(1, {"train/reward": 0.5})])
    assert Run.objects.get(pk=tracked.pk).refit_wanted_at is None

    ingest.store_records(tracked, [make_record(2, {"eval/math/pass_rate": 0.5})])
    assert Run.objects.get(pk=tracked.pk).refit_wanted_at is not None


def test_the_figure_is_of_the_curve_that_is_asked_for(mixture):
    figure = run_figure(mixture, Question(metric="eval/code/pass_rate", cutoff=10.0))

    assert figure["metric_label"] == "Held-out pass rate on code"
    assert [curve["label"] for curve in figure["curves"]] == ["all parts", "code", "math"]
    assert figure["points"]["y"][-1] == pytest.approx(0.7, abs=0.02)
    assert figure["hindsight"] is not None
    assert run_figure(mixture)["metric"] == OVERALL


def test_a_part_that_is_not_reported_is_an_empty_curve(mixture):
    figure = run_figure(mixture, Question(metric="eval/art/pass_rate"))

    assert (figure["points"]["x"], figure["fit"]) == ([], None)


def test_the_overall_curve_comes_first(mixture):
    assert pass_rates_of(mixture) == [OVERALL, "eval/code/pass_rate", "eval/math/pass_rate"]


def test_leaderboard_and_comparison_keep_to_the_overall_curve(mixture):
    services.refit(mixture.pk)

    assert Fit.objects.get(pk=latest_ids([mixture.pk])[mixture.pk]).metric == OVERALL
    overall = comparison([mixture], [])["series"][0]["points"]["y"]
    assert overall == run_figure(mixture)["points"]["y"]

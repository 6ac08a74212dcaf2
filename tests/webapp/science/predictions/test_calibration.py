"""Claimed against observed: which outcome counts, in which band, with which uncertainty, and what stands beside."""

import numpy as np
import pytest
from scipy import stats

from tests.members import member
from tests.webapp.science.predictions.conftest import add_points
from webapp.base.errors import InvalidInput
from webapp.science.predictions import selectors, services
from webapp.science.predictions.calibration import calibration, forecasters, horizon_of
from webapp.science.predictions.judging import score_run


@pytest.fixture
def claims(freeze, make_run):
    """claims([0.60, 0.70], user=..): claims that 0.6 in [0.55, 0.65] comes at 16 h, of runs where these come."""
    seeds = iter(range(100, 1000))

    def make(actuals, *, target=16.0, **changes):
        made = []
        for actual in actuals:
            run = make_run(seed=next(seeds), n=12)
            asked = {"run": run, "target": target, "value": 0.6, "lo": 0.55, "hi": 0.65} | changes
            prediction = freeze(**asked)
            type(run).objects.filter(pk=run.pk).update(task=f"math-{run.seed}")  # no sister scores it
            add_points(run, [target * 0.9, target], [actual, actual])
            score_run(run.pk)
            made.append(prediction)
        return made

    return make


def test_counts_coverage_and_scores(claims, project):
    claims([0.6, 0.62, 0.56, 0.7])
    found = calibration(project)
    row = found.overall
    exact = stats.binomtest(3, 4).proportion_ci(0.9, method="exact")

    assert (row.n, row.inside, row.claimed, row.observed, row.runs) == (4, 3, 0.9, 0.75, 4)
    assert (row.lo, row.hi) == (pytest.approx(exact.low), pytest.approx(exact.high))
    assert row.interval_score == pytest.approx(np.mean([0.1, 0.1, 0.1, 0.1 + 20 * 0.05]))
    assert row.width == pytest.approx(0.1)
    assert row.mean_error == pytest.approx(np.mean([0.0, 0.02, -0.04, 0.1]))
    assert row.mean_abs_error == pytest.approx(0.04)
    assert "agrees" in row.words
    assert found.counts.scored == found.counts.total == 4


def test_rows_by_level_horizon_author_and_statement(claims, project, admin):
    claims([0.6, 0.7], level=0.8)
    claims([0.6], user=admin, target=24.0)
    found = calibration(project)

    assert [(r.label, r.n, r.inside) for r in found.of("level")] == [("80 %", 2, 1), ("90 %", 1, 1)]
    assert [(r.key, r.n) for r in found.of("horizon")] == [("2", 2), ("4", 1)]
    assert [(r.key, r.n) for r in found.of("author")] == [("ada", 2), ("root", 1)]
    assert [(r.key, r.n) for r in found.of("recipe")] == [("scalerl", 3)]
    assert [(r.key, r.n) for r in found.of("statement")] == [("pass_rate", 3)]
    assert calibration(project, author=admin).overall.n == 1
    assert calibration(project, horizon="4").overall.n == 1
    assert calibration(project, horizon="8").overall.n == 0
    assert calibration(project, recipe="grpo").overall.words == "nothing scored yet"
    with pytest.raises(InvalidInput):
        calibration(project, horizon="3")


def test_too_narrow_and_too_wide(claims, project, admin):
    claims([0.7] * 6)
    claims([0.6] * 8, user=admin, level=0.5)

    by = {row.key: row.words for row in calibration(project).of("author")}
    assert by["ada"].startswith("too narrow") and by["root"].startswith("too wide")


@pytest.mark.parametrize(
    ("ratio", "key"),
    [(1.01, "2"), (2.0, "2"), (2.001, "4"), (4.0, "4"), (8.0, "8"), (8.1, "more"), (1000, "more")],
)
def test_bands_of_the_horizon(ratio, key):
    assert horizon_of(ratio) == key


def test_the_run_of_the_claim_counts_before_its_sisters(freeze, run, make_run, project):
    freeze(value=0.6, lo=0.55, hi=0.65)
    sister = make_run(seed=2, to=8.0)
    add_points(sister, [16.0], [0.7])
    score_run(sister.pk)
    assert calibration(project).overall.inside == 0
    add_points(run, [16.0], [0.6])
    score_run(run.pk)
    found = calibration(project)

    assert (found.overall.n, found.overall.inside, found.counts.extra) == (1, 1, 1)


def test_what_has_no_outcome_stands_beside(freeze, author, project, run):
    services.withdraw(freeze(), user=author, reason="Wrong.")
    freeze(replaces=freeze())
    freeze(target=100.0)
    counts = calibration(project).counts

    assert (counts.total, counts.open, counts.projection, counts.withdrawn, counts.replaced) == (
        4,
        1,
        1,
        1,
        1,
    )
    assert calibration(project).overall.n == 0


def test_probabilities_of_passing(freeze, make_run, other_revision, project):
    for seed, (p, passes) in enumerate([(0.9, True), (0.85, True), (0.2, False), (0.1, True)]):
        own = make_run(seed=200 + seed, n=12)
        rival = make_run(seed=300 + seed, n=12, revision=other_revision)
        freeze(run=own, statement="passes", rival=rival, probability=p)
        type(own).objects.filter(pk__in=[own.pk, rival.pk]).update(task=f"math-{seed}")
        add_points(rival, [16.0], [0.5])
        add_points(own, [16.0], [0.6 if passes else 0.4])
        score_run(own.pk)
    found = calibration(project).probabilities

    assert found.n == 4 and found.happened == 0.75
    assert found.brier == pytest.approx(np.mean([0.01, 0.0225, 0.04, 0.81]))
    assert found.log_score == pytest.approx(-np.mean(np.log([0.9, 0.85, 0.8, 0.1])))
    assert [(b.n, b.happened) for b in found.bins] == [(1, 1.0), (1, 0.0), (2, 1.0)]
    assert calibration(project).overall.n == 0


def test_records_of_authors_and_recipes(claims, project, author, admin, revision, other_revision):
    claims([0.6, 0.7])
    assert selectors.record_of_author(author, project).intervals.inside == 1
    assert selectors.record_of_author(admin, project).counts.total == 0
    assert selectors.record_of_recipe(revision, project).counts.scored == 2
    assert selectors.record_of_recipe(other_revision, project).counts.total == 0


def test_people_are_ranked_only_where_the_team_wants_it(claims, project):
    claims([0.6] * 5)
    assert forecasters(project) == []
    project.ranks_forecasters = True
    assert [one.author for one in forecasters(project)] == ["ada"]


def test_the_ranking_shares_ranks_and_needs_enough(claims, freeze, project, admin):
    project.ranks_forecasters = True
    sharp, far_off, few = (member(name, project=project) for name in ("ann", "bob", "cid"))
    close = [0.6, 0.601, 0.599, 0.602, 0.598]
    claims(close, user=sharp, lo=0.597, hi=0.603)
    claims(close, user=far_off, value=0.5, lo=0.49, hi=0.51)
    claims(close, user=admin, lo=0.597, hi=0.603)
    claims([0.6], user=few)
    services.withdraw(freeze(user=few), user=few, reason="Wrong.")
    found = {one.author: one for one in forecasters(project)}

    assert [one.author for one in forecasters(project)][2:] == ["bob", "cid"]
    assert [found[name].rank for name in ("ann", "root", "bob", "cid")] == [1, 1, 3, None]
    assert [found[name].tied for name in ("ann", "root", "bob", "cid")] == [True, True, False, False]
    assert found["ann"].score < 1 < found["bob"].score
    assert found["ann"].lo <= found["ann"].score <= found["ann"].hi
    assert (found["cid"].n, found["cid"].score, found["cid"].withdrawn) == (1, None, 1)


def test_calibration_asks_the_same_whatever_its_size(claims, project, django_assert_num_queries):
    claims([0.6])
    with django_assert_num_queries(4):
        calibration(project)
    claims([0.6] * 6)
    with django_assert_num_queries(4):
        calibration(project)

"""Intervals follow the record of other runs, from 20 of them on."""

import numpy as np
import pytest

from tests.members import member
from webapp.identity.accounts.models import Project, Role
from webapp.identity.accounts.services import default_organisation
from webapp.identity.audit.models import Event
from webapp.science.curves import services
from webapp.science.curves.fitting import read
from webapp.science.curves.models import Fit, ForecastOrigin
from webapp.science.curves.record.keeping import switch_recalibration
from webapp.science.curves.record.recalibrating import MOST, conformal, record_of, switch
from webapp.science.curves.run.figure import run_figure


def test_the_quantile_is_raised_for_few_runs_and_runs_weigh_the_same():
    ratios, runs = np.arange(1.0, 21.0), np.arange(20).astype(str)

    assert conformal(ratios, runs, 0.9) == 19.0  # the ceil(0.9 * 21)-th of 20
    assert conformal(ratios, runs, 0.99) == 20.0
    assert conformal(np.array([1.0, 9.0, 9.0, 9.0]), np.array(["a", "b", "b", "b"]), 0.3) == 1.0


def test_before_twenty_runs_nothing_is_recalibrated(judged, project):
    for _ in range(19):
        judged(2.0)
    assert record_of(project).widening(0.9).factor == 1.0
    assert record_of(project).widening(0.9).sentence == ""

    judged(2.0)

    assert record_of(project).widening(0.9).factor == pytest.approx(2.0)
    assert record_of(project).widening(0.5).factor == MOST  # 3 times as many half widths of 50 %, cut


def test_a_run_s_own_forecasts_do_not_count_for_itself(judged, project):
    runs = [judged(1.0) for _ in range(18)]
    own, _ = judged(4.0), judged(4.5)

    assert record_of(project).factor(0.9) == 4.0
    assert record_of(project).factor(0.9, runs[0].pk) == 4.0
    assert record_of(project).factor(0.9, own.pk) == 1.0
    assert record_of(project).widening(0.9, own.pk).runs == 19


def test_the_newest_record_is_read_and_another_project_has_its_own(judged, project):
    for _ in range(20):
        judged(2.0)
    other = Project.objects.create(slug="other", name="Other", organisation=default_organisation())

    assert record_of(other).factor(0.9) is None
    before = record_of(project)
    judged(3.0)
    assert record_of(project).n_runs == before.n_runs + 1


def test_the_run_page_shows_widened_intervals_and_says_so(judged, project, make_run):
    run = make_run(to=16.0)
    services.refit(run.pk)
    plain = run_figure(run)["forecast"]
    for _ in range(20):
        judged(1.5)

    wide = run_figure(run)["forecast"]

    reached = read(Fit.objects.filter(run=run).latest("pk").forecast).reached
    assert (plain["widening"], plain["recalibrated"]) == (1.0, "")
    assert wide["widening"] == pytest.approx(1.5)
    assert wide["recalibrated"] == "Widened by 1.50, by how forecasts of 20 other runs came out."
    for before, after in zip(plain["multiples"], wide["multiples"], strict=True):
        assert after["value"] == before["value"]
        below = 1.5 * (before["value"] - before["interval"][0])
        assert after["interval"][0] == pytest.approx(
            max(after["value"] - below, min(reached, before["interval"][0]))
        )
    switch(project, is_on=False)
    assert run_figure(run)["forecast"] == plain


def test_a_switch_is_in_the_audit_log(project):
    admin = member("root", project=project, role=Role.ADMIN)

    assert switch_recalibration(project, is_on=False, actor=admin)
    assert not switch_recalibration(project, is_on=False, actor=admin)

    assert record_of(project).is_on is False
    assert Event.objects.filter(verb="project.changed").count() == 1


def test_unscored_origins_do_not_count(judged, project):
    for _ in range(20):
        judged(2.0)
    ForecastOrigin.objects.filter(cut=0.25).update(ratios=None)
    judged(2.0)

    assert len(record_of(project).runs) == 20 * 3 + 4

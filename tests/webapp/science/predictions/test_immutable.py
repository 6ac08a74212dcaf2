"""What the database itself refuses, whoever asks: claims, verdicts and outcomes stay as they were made."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import RestrictedError
from django.utils import timezone

from tests.webapp.science.predictions.conftest import add_points, rate
from webapp.science.predictions import services
from webapp.science.predictions.judging import score_run
from webapp.science.predictions.models import Outcome, Prediction, Review


def judge_deletions():
    """Run the triggers that wait for the commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def test_a_run_with_a_claim_is_kept(freeze, run):
    freeze()
    with pytest.raises(RestrictedError):
        run.delete()


def scored(freeze, run):
    made = freeze()
    add_points(run, [17.0], rate([17.0]))
    score_run(run.pk)
    return made


@pytest.mark.parametrize(
    "changes",
    [
        {"target": 20.0},
        {"value": 0.1},
        {"lo": 0.0},
        {"hi": 1.0},
        {"level": 0.5},
        {"reasons": "Other."},
        {"frozen": {}},
        {"data_digest": "0" * 64},
        {"cutoff": 1.0},
        {"known_until": 1.0},
        {"key": "k"},
        {"created_at": timezone.now()},
        {"withdrawn_reason": "No stamp."},
        {"withdrawn_at": timezone.now()},
        {"withdrawn_at": timezone.now(), "withdrawn_reason": "So.", "target": 20.0},
    ],
)
def test_a_frozen_claim_never_changes(freeze, changes):
    made = freeze()
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        Prediction.objects.filter(pk=made.pk).update(**changes)


def test_a_withdrawal_happens_once(freeze, author):
    made = freeze()
    services.withdraw(made, user=author, reason="A wrong window.")
    for changes in ({"withdrawn_reason": "Another."}, {"withdrawn_at": None, "withdrawn_reason": ""}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Prediction.objects.filter(pk=made.pk).update(**changes)


def test_a_scored_claim_cannot_be_withdrawn_past_the_services(freeze, run):
    made = scored(freeze, run)
    assert Outcome.objects.filter(prediction=made).exists()
    with pytest.raises(IntegrityError), transaction.atomic():
        Prediction.objects.filter(pk=made.pk).update(withdrawn_at=timezone.now(), withdrawn_reason="Wrong.")


def test_verdicts_and_outcomes_never_change(freeze, reviewer, run):
    made = freeze()
    services.review(made, user=reviewer, verdict="rejected", reason="Too narrow.")
    add_points(run, [17.0], rate([17.0]))
    score_run(run.pk)
    for rows, changes in (
        (Review.objects.filter(prediction=made), {"verdict": "approved"}),
        (Outcome.objects.filter(prediction=made), {"inside": True, "actual": 0.6}),
    ):
        assert rows.exists()
        with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
            rows.update(**changes)


@pytest.mark.parametrize("model", [Prediction, Review, Outcome])
def test_nothing_of_it_is_deleted(freeze, reviewer, run, model):
    made = freeze()
    services.review(made, user=reviewer, verdict="rejected", reason="Too narrow.")
    add_points(run, [17.0], rate([17.0]))
    score_run(run.pk)
    with pytest.raises(IntegrityError, match="never deleted"), transaction.atomic():
        model.objects.all().delete()
        judge_deletions()
    assert model.objects.exists()


def test_a_whole_project_can_go(freeze, reviewer, run, project):
    made = freeze()
    services.review(made, user=reviewer, verdict="rejected", reason="Too narrow.")
    services.comment(made, user=reviewer, text="Why?")
    add_points(run, [17.0], rate([17.0]))
    score_run(run.pk)
    with transaction.atomic():
        for rows in (project.predictions, project.runs):  # a run protects its recipe, a prediction its run
            rows.all().delete()
        project.delete()
        judge_deletions()

    assert not Prediction.objects.exists()

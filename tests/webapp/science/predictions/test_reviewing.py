"""Asking for reviews, verdicts, resubmission, withdrawal."""

import pytest

from tests.members import member
from tests.webapp.science.predictions.conftest import add_points, rate
from webapp.base.errors import Conflict, Forbidden, InvalidInput, NotFound
from webapp.identity.accounts.models import Project, Role
from webapp.identity.accounts.services import default_organisation
from webapp.identity.audit.models import Event
from webapp.reporting.alerts.models import Notice
from webapp.science.predictions import selectors, services
from webapp.science.predictions.judging import score_run
from webapp.science.predictions.models import Prediction, Review, ReviewRequest


def status(prediction):
    return selectors.status_of(Prediction.objects.get(pk=prediction.pk))


def test_the_whole_story_of_a_claim(freeze, author, reviewer, run, project):
    first = freeze()
    assert status(first).review == "unreviewed"
    services.ask_review(first, user=author, reviewers=[reviewer])
    assert status(first).review == "asked"
    assert [p.pk for p in selectors.awaiting_review(reviewer, project)] == [first.pk]

    services.review(first, user=reviewer, verdict="changes", reason="Say why the window starts there.")
    assert status(first).review == "changes"
    assert not selectors.awaiting_review(reviewer, project).exists()

    second = freeze(replaces=first, reasons="The first epoch is left out.")
    assert status(first).life == "replaced"
    services.review(second, user=reviewer, verdict="approved")
    assert status(second).review == "approved"

    add_points(run, [17.0], rate([17.0]))
    assert [outcome.prediction_id for outcome in score_run(run.pk)] == [second.pk]
    assert status(second).life == "scored"
    kinds = [entry.kind for entry in selectors.history_of(selectors.prediction_by_id(project, first.pk))]
    assert kinds == ["frozen", "asked", "reviewed", "replaced"]
    kinds = [entry.kind for entry in selectors.history_of(selectors.prediction_by_id(project, second.pk))]
    assert kinds == ["frozen", "reviewed", "scored"]
    told = set(Notice.objects.values_list("user__username", "kind"))
    assert told == {
        ("grace", "review_asked"),
        ("ada", "prediction_reviewed"),
        ("grace", "prediction_resubmitted"),
        ("ada", "prediction_scored"),
    }
    verbs = Event.objects.order_by("id").values_list("verb", flat=True)
    assert list(verbs) == [
        "prediction.frozen", "prediction.review_asked", "prediction.reviewed", "prediction.resubmitted",
        "prediction.reviewed", "prediction.scored",
    ]  # fmt: skip


def test_nobody_judges_a_claim_of_their_own(freeze, reviewer):
    made = freeze(user=reviewer)
    with pytest.raises(Forbidden):
        services.review(made, user=reviewer, verdict="approved")
    with pytest.raises(InvalidInput) as refused:
        services.ask_review(made, user=reviewer, reviewers=[reviewer])
    assert refused.value.field == "reviewers"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.CONTRIBUTOR, Role.LAUNCHER])
def test_a_reviewer_without_right(freeze, author, project, role):
    made = freeze()
    person = member("eve", project=project, role=role)
    with pytest.raises(InvalidInput) as refused:
        services.ask_review(made, user=author, reviewers=[person])

    assert refused.value.field == "reviewers"
    assert not Review.objects.exists() and not ReviewRequest.objects.exists() and not Notice.objects.exists()


def test_strangers_do_not_learn_that_it_exists(freeze, author):
    made = freeze()
    elsewhere = Project.objects.create(slug="code", name="Code", organisation=default_organisation())
    stranger = member("mallory", project=elsewhere)
    with pytest.raises(NotFound):
        selectors.prediction_by_id(elsewhere, made.pk)
    with pytest.raises(InvalidInput):
        services.ask_review(made, user=author, reviewers=[stranger])


def test_one_wrong_reviewer_asks_nobody(freeze, author, reviewer, project):
    made = freeze()
    with pytest.raises(InvalidInput):
        services.ask_review(
            made, user=author, reviewers=[reviewer, member("eve", project=project, role="viewer")]
        )
    with pytest.raises(InvalidInput):
        services.ask_review(made, user=author, reviewers=[])

    assert not ReviewRequest.objects.exists() and not Notice.objects.exists()


def test_only_its_author_and_admins_ask_and_withdraw(freeze, reviewer, admin):
    made = freeze()
    for attempt in (
        lambda: services.ask_review(made, user=reviewer, reviewers=[admin]),
        lambda: services.withdraw(made, user=reviewer, reason="I would."),
    ):
        with pytest.raises(Forbidden):
            attempt()
    services.ask_review(made, user=admin, reviewers=[reviewer])
    assert services.withdraw(made, user=admin, reason="Its author left.").withdrawn_at


def test_who_was_asked_before_is_not_told_again(freeze, author, reviewer):
    made = freeze()
    for _ in range(3):
        services.ask_review(made, user=author, reviewers=[reviewer, reviewer])

    assert ReviewRequest.objects.count() == Notice.objects.count() == 1


@pytest.mark.parametrize("verdict", ["changes", "rejected"])
@pytest.mark.parametrize("reason", ["", "  ", "x" * 10_001, "\0"])
def test_a_verdict_that_is_not_an_approval_needs_reasons(freeze, reviewer, verdict, reason):
    made = freeze()
    with pytest.raises(InvalidInput) as refused:
        services.review(made, user=reviewer, verdict=verdict, reason=reason)

    assert refused.value.field == "reason"
    assert not Review.objects.exists()


def test_an_unknown_verdict(freeze, reviewer):
    with pytest.raises(InvalidInput) as refused:
        services.review(freeze(), user=reviewer, verdict="maybe", reason="So.")
    assert refused.value.field == "verdict"


def test_the_latest_verdict_of_each_reviewer_counts_and_the_sternest_of_these(freeze, reviewer, admin):
    made = freeze()
    services.review(made, user=reviewer, verdict="approved")
    assert status(made).review == "approved"
    services.review(made, user=admin, verdict="rejected", reason="No.")
    assert status(made).review == "rejected"
    services.review(made, user=admin, verdict="changes", reason="Perhaps.")
    assert status(made).review == "changes"
    services.review(made, user=admin, verdict="approved")
    assert status(made).review == "approved"
    assert Review.objects.count() == 4


def test_the_same_verdict_twice_is_one(freeze, reviewer):
    made = freeze()
    first = services.review(made, user=reviewer, verdict="changes", reason="Why?")
    assert services.review(made, user=reviewer, verdict="changes", reason="Why?").pk == first.pk
    assert Notice.objects.count() == 1


def test_withdrawn_claims_take_no_change(freeze, author, reviewer):
    made = freeze()
    with pytest.raises(InvalidInput) as refused:
        services.withdraw(made, user=author, reason=" ")
    assert refused.value.field == "reason"
    services.withdraw(made, user=author, reason="A wrong window.")
    for attempt in (
        lambda: services.withdraw(made, user=author, reason="Again."),
        lambda: services.review(made, user=reviewer, verdict="approved"),
        lambda: services.ask_review(made, user=author, reviewers=[reviewer]),
        lambda: freeze(replaces=made),
    ):
        with pytest.raises(Conflict):
            attempt()
    made.refresh_from_db()
    assert made.withdrawn_reason == "A wrong window."
    assert status(made).life == "withdrawn"


@pytest.mark.parametrize("scored", [True, False])
def test_a_claim_whose_target_was_passed_stands(freeze, author, reviewer, run, scored):
    """Also in the moment before its outcome is made: whoever sees what comes cannot take it back."""
    made = freeze()
    add_points(run, [17.0], rate([17.0]))
    if scored:
        score_run(run.pk)
    for attempt in (
        lambda: services.withdraw(made, user=author, reason="It is wrong."),
        lambda: services.review(made, user=reviewer, verdict="approved"),
        lambda: freeze(replaces=made, target=30.0),
    ):
        with pytest.raises(Conflict):
            attempt()


def test_what_may_be_replaced(freeze, author, reviewer, admin, make_run, other_revision):
    theirs = freeze(user=admin)
    with pytest.raises(InvalidInput):
        freeze(replaces=theirs)
    elsewhere = freeze(run=make_run(seed=9, revision=other_revision))
    with pytest.raises(InvalidInput):
        freeze(replaces=elsewhere)
    for verdict in ("approved", "rejected"):
        judged = freeze()
        services.review(judged, user=reviewer, verdict=verdict, reason="So.")
        with pytest.raises(Conflict) as refused:
            freeze(replaces=judged)
        assert refused.value.field == "replaces"


def test_a_claim_is_replaced_once(freeze):
    first = freeze()
    second = freeze(replaces=first)
    with pytest.raises(Conflict) as refused:
        freeze(replaces=first)
    third = freeze(replaces=second)

    assert refused.value.field == "replaces"
    assert [status(one).life for one in (first, second, third)] == ["replaced", "replaced", "open"]

"""Comments: threads, anchors, mentions, edits, and what is refused."""

import math

import pytest

from tests.members import member
from webapp.base.errors import Forbidden, InvalidInput
from webapp.identity.accounts.models import Project
from webapp.identity.accounts.services import default_organisation
from webapp.identity.audit.models import Event
from webapp.reporting.alerts.models import Notice
from webapp.science.predictions import selectors, services
from webapp.science.predictions.discussion import MAX_EARLIER, mentioned_names
from webapp.science.predictions.models import Comment


def test_threads_with_answers_and_anchors(freeze, author, reviewer):
    made = freeze()
    first = services.comment(made, user=reviewer, text="What happened here?", anchor=(4.0, 0.55))
    services.comment(made, user=author, text="A restart.", parent=first)
    services.comment(made, user=author, text="Another thread.")
    threads = selectors.comments_of(made)

    assert [(t.text, [a.text for a in t.answers]) for t in threads] == [
        ("What happened here?", ["A restart."]),
        ("Another thread.", []),
    ]
    assert (threads[0].anchor_x, threads[0].anchor_y) == (4.0, 0.55)


def test_the_author_and_who_is_answered_hear_of_it(freeze, author, reviewer, admin):
    made = freeze()
    first = services.comment(made, user=reviewer, text="Why?")
    services.comment(made, user=admin, text="Because.", parent=first)

    told = list(Notice.objects.order_by("id").values_list("user__username", "kind"))
    assert told == [
        ("ada", "prediction_comment"),
        ("ada", "prediction_comment"),
        ("grace", "prediction_comment"),
    ]
    assert Notice.objects.first().url == f"/predictions/{made.pk}#comment-{first.pk}"


def test_mentions_reach_members_only(freeze, author, reviewer):
    made = freeze()
    elsewhere = Project.objects.create(slug="code", name="Code", organisation=default_organisation())
    member("mallory", project=elsewhere)
    said = services.comment(made, user=author, text="@grace, @mallory, @nobody and @ada: see a@grace.org.")

    assert sorted(person.username for person in said.mentions.all()) == ["ada", "grace"]
    assert list(Notice.objects.values_list("user__username", "kind")) == [("grace", "mention")]


def test_one_notice_for_who_is_mentioned_and_author(freeze, reviewer):
    services.comment(freeze(), user=reviewer, text="@ada look")

    assert list(Notice.objects.values_list("user__username", "kind")) == [("ada", "mention")]


def test_who_left_the_project_hears_nothing(freeze, author, reviewer, project):
    made = freeze()
    project.memberships.filter(user=author).delete()
    services.comment(made, user=reviewer, text="@ada look")

    assert not Notice.objects.exists()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@a.b-c+d_e, hi", ["a.b-c+d_e"]),
        ("(@ada) @ada.", ["ada"]),
        ("mail ada@example.org", []),
        ("@", []),
        ("@ ada", []),
        ("@@ada", []),
        (" ".join(f"@u{i}" for i in range(50)), [f"u{i}" for i in range(20)]),
    ],
)
def test_what_is_a_mention(text, names):
    assert mentioned_names(text) == names


def test_an_edit_keeps_what_it_said(freeze, author, reviewer):
    said = services.comment(freeze(), user=author, text="First.")
    services.edit_comment(said, user=author, text="Second, @grace.")
    services.edit_comment(said, user=author, text="Third, @grace.")
    said.refresh_from_db()

    assert [one["text"] for one in said.earlier] == ["First.", "Second, @grace."]
    assert said.text == "Third, @grace." and said.edited_at
    assert Notice.objects.filter(kind="mention").count() == 1
    with pytest.raises(Forbidden):
        services.edit_comment(said, user=reviewer, text="Mine.")


def test_edits_are_bounded(freeze, author):
    said = services.comment(freeze(), user=author, text="0")
    for i in range(MAX_EARLIER):
        said = services.edit_comment(said, user=author, text=f"{i + 1}")
    with pytest.raises(InvalidInput):
        services.edit_comment(said, user=author, text="One more.")


def test_threads_are_settled_and_opened_again(freeze, author, reviewer):
    made = freeze()
    first = services.comment(made, user=reviewer, text="Why?")
    answer = services.comment(made, user=author, text="So.", parent=first)
    for resolved in (True, True, False):
        first = services.resolve_comment(first, user=author, resolved=resolved)
        assert (first.resolved_at is not None) == resolved
    with pytest.raises(InvalidInput):
        services.resolve_comment(answer, user=author, resolved=True)
    verbs = Event.objects.filter(verb__startswith="prediction.comment_").values_list("verb", flat=True)
    assert sorted(verbs) == ["prediction.comment_reopened", "prediction.comment_resolved"]


def test_a_double_click_comments_once(freeze, author):
    made = freeze()
    first = services.comment(made, user=author, text="Once.", anchor=(1.0, 0.5))
    assert services.comment(made, user=author, text="Once.", anchor=(1.0, 0.5)).pk == first.pk
    services.comment(made, user=author, text="Once.")
    assert Comment.objects.count() == 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"text": ""}, "text"),
        ({"text": " \n"}, "text"),
        ({"text": "x" * 5_001}, "text"),
        ({"text": "\0"}, "text"),
        ({"text": None}, "text"),
        ({"anchor": (1.0,)}, "anchor"),
        ({"anchor": (1.0, math.nan)}, "anchor"),
        ({"anchor": (math.inf, 0.5)}, "anchor"),
        ({"anchor": (10**400, 0.5)}, "anchor"),
        ({"anchor": (-1.0, 0.5)}, "anchor"),
        ({"anchor": (1.0, 5.0)}, "anchor"),
        ({"anchor": "ab"}, "anchor"),
    ],
)
def test_what_is_no_comment(freeze, author, changes, field):
    with pytest.raises(InvalidInput) as refused:
        services.comment(freeze(), user=author, **{"text": "Hi."} | changes)

    assert refused.value.field == field
    assert not Comment.objects.exists()


def test_answers_belong_to_a_thread_of_the_same_prediction(freeze, author):
    one, other = freeze(), freeze(target=20.0)
    first = services.comment(one, user=author, text="Hi.")
    answer = services.comment(one, user=author, text="Ho.", parent=first)
    for prediction, parent, anchor in ((other, first, None), (one, answer, None), (one, first, (1.0, 0.5))):
        with pytest.raises(InvalidInput):
            services.comment(prediction, user=author, text="Well.", parent=parent, anchor=anchor)


def test_withdrawn_claims_can_still_be_talked_about(freeze, author):
    made = freeze()
    services.withdraw(made, user=author, reason="Wrong.")
    assert services.comment(made, user=author, text="The window was wrong.")

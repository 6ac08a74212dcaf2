"""Where predictions stand: projections in SQL, lists without a query a row, filters."""

import pytest

from tests.webapp.science.predictions.conftest import add_points
from webapp.base.errors import InvalidInput, NotFound
from webapp.record.runs.models import Run, State
from webapp.science.predictions import selectors, services
from webapp.science.predictions.judging import score_run
from webapp.science.predictions.models import Prediction


def life(prediction):
    return selectors.status_of(Prediction.objects.get(pk=prediction.pk)).life


def test_nobody_on_the_way_makes_a_projection(freeze, run):
    made = freeze(target=16.0)
    beyond = freeze(target=30.0)
    assert (life(made), life(beyond)) == ("open", "projection")
    Run.objects.filter(pk=run.pk).update(state=State.SUCCEEDED)
    assert life(made) == "projection"


def test_a_queued_sister_with_the_budget_opens_it_again(freeze, make_run):
    made = freeze(target=30.0)
    make_run(seed=1, budget_hours=20.0, state=State.QUEUED, n=0)
    make_run(seed=2, budget_hours=40.0, state=State.QUEUED, n=0, model="32b")
    assert life(made) == "projection"
    make_run(seed=3, budget_hours=40.0, state=State.QUEUED, n=0)
    assert life(made) == "open"


def test_a_sister_that_was_there_before_does_not_open_it(freeze, make_run, run):
    make_run(seed=1, to=40.0, budget_hours=64.0)
    made = freeze(target=30.0)
    assert made.frozen["seen"] and life(made) == "projection"


def test_a_tracked_run_without_budget_may_get_anywhere(freeze, make_run):
    tracked = make_run(seed=1, revision=None, budget_hours=None)
    make_run(seed=2, revision=None, budget_hours=None)
    made = freeze(run=tracked, target=1000.0, value=0.6, lo=0.5, hi=0.7)
    assert life(made) == "open"
    Run.objects.filter(pk=tracked.pk).update(state=State.SUCCEEDED)
    assert life(made) == "projection"


def test_on_other_axes_budgets_are_compared_in_device_hours(freeze):
    assert life(freeze(question={"x": "flops"}, target=15e15)) == "open"
    assert life(freeze(question={"x": "flops"}, target=17e15)) == "projection"


def test_lists_by_status_author_and_recipe(
    freeze, author, admin, reviewer, run, make_run, project, other_revision
):
    scored = freeze(target=10.0)
    add_points(run, [10.0], [0.6])
    score_run(run.pk)
    open_one = freeze(target=16.0, user=admin)
    withdrawn = freeze(target=15.0)
    services.withdraw(withdrawn, user=author, reason="Wrong.")
    old = freeze(target=14.0)
    new = freeze(target=14.0, replaces=old)
    services.review(new, user=reviewer, verdict="approved")
    far = freeze(target=100.0)
    grpo = freeze(run=make_run(seed=5, revision=other_revision))

    def found(**filters):
        return {p.pk for p in selectors.predictions_of(project, **filters)}

    assert found(status="scored") == {scored.pk}
    assert found(status="open") == {open_one.pk, new.pk, grpo.pk}
    assert found(status="withdrawn") == {withdrawn.pk}
    assert found(status="replaced") == {old.pk}
    assert found(status="projection") == {far.pk}
    assert found(status="approved") == {new.pk}
    assert found(author=admin) == {open_one.pk}
    assert found(recipe="grpo") == found(run=grpo.run_id) == {grpo.pk}
    assert len(found()) == len(found(task="math", model="8b")) == 7
    assert found(task="code") == set()
    with pytest.raises(InvalidInput):
        found(status="lost")


def test_a_list_asks_the_same_whatever_its_length(freeze, project, run, django_assert_num_queries, reviewer):
    def read():
        rows = list(selectors.predictions_of(project))
        for row in rows:
            selectors.status_of(row)
            assert row.author.username and row.run.name and row.revision.recipe.slug
            assert getattr(row, "replaced_by", None) is None or row.replaced_by.pk
            list(row.outcomes.all()), list(row.pendings.all())
        return len(rows)

    freeze(target=10.0)
    add_points(run, [11.0], [0.6])
    score_run(run.pk)
    with django_assert_num_queries(3):
        assert read() == 1
    for target in range(20, 30):
        services.review(freeze(target=float(target)), user=reviewer, verdict="approved")
    freeze(target=40.0, replaces=freeze(target=40.0))
    with django_assert_num_queries(3):
        assert read() == 13


def test_what_waits_for_a_reviewer(freeze, author, reviewer, admin, project):
    first, second, gone = freeze(), freeze(), freeze()
    for one in (second, first, gone):
        services.ask_review(one, user=author, reviewers=[reviewer, admin])
    services.withdraw(gone, user=author, reason="Wrong.")
    services.review(first, user=admin, verdict="approved")

    assert [p.pk for p in selectors.awaiting_review(reviewer, project)] == [second.pk, first.pk]
    assert [p.pk for p in selectors.awaiting_review(admin, project)] == [second.pk]
    assert not selectors.awaiting_review(author, project).exists()


def test_words_say_both(freeze):
    said = selectors.status_of(Prediction.objects.get(pk=freeze().pk))
    assert said.words == "Open; nobody was asked to review it."


def test_unknown_ids(project, freeze):
    freeze()
    for text in ("nothing", "", "x" * 300):
        with pytest.raises(NotFound):
            selectors.prediction_by_id(project, text)

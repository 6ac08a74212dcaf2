"""Claims in words, and what a form says of them."""

from django.http import QueryDict

from tests.webapp.interfaces.pages.addresses import make_prediction
from webapp.interfaces.pages.prediction.form import asked_of, beside, hidden_fields, reach_words
from webapp.interfaces.pages.prediction.listing import differences
from webapp.science.curves.fitting import curve_of
from webapp.science.predictions import claims


def test_the_sentence_names_recipe_task_and_model(claim):
    assert claims.sentence(claim).startswith(
        f"{claim.revision} on arithmetic with tiny-arithmetic: pass rate 0."
    )


def test_a_changed_claim_says_what_changed_and_nothing_else(user, half_run, claim):
    changed = make_prediction(user, half_run, value=0.6, lo=0.5, hi=0.7, replaces=claim)

    found = {one["what"]: one["now"] for one in differences(claim, changed)}

    assert set(found) == {"Claimed", "Interval"}
    assert found["Interval"] == "90 % 0.50 to 0.70"


def test_how_far_is_measured_from_what_was_known(user, half_run):
    claim = make_prediction(user, half_run, question={"cutoff": 4.0})

    assert claims.made_from(claim) == "from 8.00 device-hours, 2 times as far"
    far = make_prediction(user, half_run, target=2000.0, value=0.6, lo=0.5, hi=0.7)
    assert claims.made_from(far) == "from 8.00 device-hours, 250 times as far"


def test_the_question_of_the_run_page_goes_through_the_form():
    asked = asked_of(QueryDict("x=tokens&lo=0.3&cutoff=8.123456789&robust=1&target=0.6&of=rate&form=power"))

    assert (asked.x, asked.window_lo, asked.cutoff, asked.robust, asked.form) == (
        "tokens",
        0.3,
        8.123456789,
        True,
        "power",
    )
    again = QueryDict(mutable=True)
    again.update(dict(hidden_fields(asked)))
    assert asked_of(again) == asked


def test_messages_stand_beside_their_field_without_its_name():
    assert beside("target", "target: this run has been there.") == "This run has been there."
    assert beside(None, "Nothing.") == "Nothing."


def test_the_form_says_when_a_target_is_a_projection(half_run):
    def said(**changes):
        for name, value in changes.items():
            setattr(half_run, name, value)
        return reach_words(half_run, curve_of(half_run), asked_of(QueryDict("")))

    assert "its budget ends at 16.0. What no run" in said()
    assert "no budget, so a claim stays open for as long as it runs" in said(budget_hours=None)
    assert said(state="succeeded").startswith("It has reached 8.00 device-hours and has ended. What no")

"""The law over a study's axis: that of `scaling.axis` on stored forecasts, what it refuses, and what it takes."""

import time
from dataclasses import replace

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scaling.axis import fit_axis
from webapp.base.errors import InvalidInput
from webapp.record.runs.models import Run
from webapp.science.curves.fitting import curve_of
from webapp.science.studies import law, selectors
from webapp.science.studies.axes import stated_size
from webapp.science.studies.models import Arm
from webapp.science.studies.results import CSV_COLUMNS, csv_rows, results


@pytest.fixture
def along(make_study, report):
    """A study of one axis, the base's batch of 256 among it; ceilings in the order of the variants."""

    def make(changes=("batch=64", "batch=128", "batch=512"), ceilings=(0.6, 0.5, 0.55, 0.65), **kwargs):
        study = make_study(kind="axis", changes=changes, seeds=(0,))
        for place, a in zip(study.members.select_related("run").order_by("id"), ceilings, strict=False):
            report(place.run, a=a, **kwargs)
        return study

    return make


def law_of(study):
    return law.axis_law(selectors.groups_of(study))


def test_it_says_what_scaling_says_of_the_same_runs(along):
    study = along()
    runs = [(one.arm.number, curve_of(one.run)) for one in study.members.select_related("run", "arm")]
    joint = fit_axis([number for number, _ in runs], [(curve.x, curve.y) for _, curve in runs])

    said = law.at_value(law_of(study), 1024.0)

    for found, own in (
        (said["ceiling"], joint.ceiling(1024.0)),
        (said["pass_rate"], [float(end[0]) for end in ends_at(joint, 1024.0, study.budget_hours)]),
    ):
        width = own[2] - own[1]
        assert [found[end] for end in ("value", "lo", "hi")] == pytest.approx(own, abs=0.3 * width)
    assert said["sentence"].startswith("Batch 1,024: forecast ceiling ")
    assert said["sentence"].endswith("(no run of it has been seen).")


def ends_at(joint, value, compute):
    said = joint.forecast(value, [compute])
    return said.value, said.lo, said.hi


def test_its_curve_passes_its_variants_and_widens_beyond_them(along):
    found = law_of(along())

    assert found["why"] == ""
    assert [one["value"] for one in found["runs"]] == [256.0, 64.0, 128.0, 512.0]
    assert [one["position"] for one in found["variants"]] == [0, 1, 2, 3]
    widths = {one["value"]: one["ceiling"]["hi"] - one["ceiling"]["lo"] for one in found["curve"]}
    assert (min(widths), max(widths)) == (pytest.approx(32), pytest.approx(1024))
    assert widths[max(widths)] > found["variants"][0]["ceiling"]["hi"] - found["variants"][0]["ceiling"]["lo"]
    values = [one["ceiling"]["value"] for one in sorted(found["variants"], key=lambda one: one["value"])]
    assert values == sorted(values)


@pytest.mark.parametrize(
    ("changes", "reported", "why"),
    [
        (("batch=512",), 2, "2 axis values fit any law: at least 3 different ones are needed."),
        (
            ("batch=128", "batch=512"),
            2,
            "2 of 3 values have a run with a forecast and a quarter of its budget behind it: a law takes 3.",
        ),
        (
            ("optimizer.weight_decay=0", "optimizer.weight_decay=0.1"),
            0,
            "Value 0 of the axis is not above zero.",
        ),
    ],
)
def test_where_there_is_none_one_sentence_says_why(along, changes, reported, why):
    found = law_of(along(changes, (0.6,) * reported))

    assert (found["why"], found["sentence"], found["curve"]) == (why, why, [])
    with pytest.raises(InvalidInput, match=why):
        law.at_value(found, 1024.0)


def test_what_has_just_begun_takes_no_part(along, report):
    study = along(to=8.0)  # of 16 device-hours
    found = {one["value"] for one in law_of(study)["runs"]}
    early = along(to=3.0)

    assert found == {64.0, 128.0, 256.0, 512.0}
    assert law_of(early)["why"].startswith("0 of 4 values have a run")


def test_runs_that_cost_more_are_taken_at_their_own_ends(along):
    """As larger models do: what has spent a tenth of the others would not be compared with them."""
    study = along()
    for one in study.members.select_related("run"):
        Run.objects.filter(pk=one.run_id).update(budget_hours=None)
    members = {one.arm.number: one for group in [selectors.groups_of(study)] for one in group}
    small = members[64.0].members[0]
    shorter = replace(small, course=small.course.on_axis(10.0))

    found = law.axis_law(
        [replace(one, members=[shorter]) if one.number == 64.0 else one for one in members.values()]
    )

    assert {one["value"] for one in found["runs"]} == {64.0, 128.0, 256.0, 512.0}
    own, taken = (next(one for one in law["runs"] if one["value"] == 64.0) for law in (law_of(study), found))
    assert taken["pass_rate"] == pytest.approx(own["pass_rate"])


def test_several_axes_and_axes_of_words_have_none(finished, along):
    assert law_of(finished) is None
    assert law_of(along(("mixture=arithmetic:1", "mixture=arithmetic:2"), ())) is None


def test_a_run_of_a_value_that_was_seen_is_one_more_of_it(along):
    assert law.at_value(law_of(along()), 512.0)["sentence"].endswith("(one more run of it).")


@pytest.mark.parametrize(
    ("text", "value"), [("512", 512.0), (" 1,024 ", 1024.0), ("1e-6", 1e-6), ("7B", 7e9)]
)
def test_values_are_read_as_people_write_them(text, value):
    assert law.number_of(text) == value


@pytest.mark.parametrize("text", ["", "many", "0", "-3", "inf", "nan", "7x", "\0"])
def test_what_is_no_value_is_refused(text):
    with pytest.raises(InvalidInput, match="is no number above 0"):
        law.number_of(text)


@pytest.mark.parametrize("value", [0.01, 1e9, 1e308])
def test_far_from_the_values_seen_it_says_nothing(along, value):
    with pytest.raises(InvalidInput, match="^Runs from 64 to 512 say nothing of "):
        law.at_value(law_of(along()), value)


def test_models_stand_by_the_size_that_their_names_state(along):
    study = along()
    for arm, model in zip(
        study.arms.all(), ("org/M-7B", "org/M-0.5B", "org/M-1.5B", "M-14b-base"), strict=True
    ):
        Arm.objects.filter(pk=arm.pk).update(axis="model", axis_title="Model", model=model, number=None)

    found = law_of(study)

    assert [one["value"] for one in found["variants"]] == [7e9, 0.5e9, 1.5e9, 14e9]
    assert found["unit"] == "parameters"
    Arm.objects.filter(study=study, position=0).update(model="org/M")
    assert law_of(study)["why"] == "There is no law over models whose size is not known: org/M."


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("Qwen3-30B-A3B", 30e9),
        ("tiny-arithmetic-0.1m", 1e5),
        ("gpt-oss-120b", 120e9),
        ("v2.5b1", None),
        ("A3B", None),
    ],
)
def test_sizes_in_names(name, size):
    assert stated_size(name) == size


def test_the_csv_has_the_law_at_each_variants_value(along):
    study = along()
    payload = results(study, selectors.groups_of(study))

    rows = [dict(zip(CSV_COLUMNS, row, strict=True)) for row in csv_rows(payload)]

    law_at = {one["position"]: one["ceiling"] for one in payload["law"]["variants"]}
    assert [(row["law"], row["law_lo"], row["law_hi"]) for row in rows] == [
        tuple(law_at[position][end] for end in ("value", "lo", "hi")) for position in range(4)
    ]


def test_no_evaluation_is_fitted_for_it_and_it_is_kept(along):
    """Many runs: what a page waits for is the law alone, and asking again is nearly free."""
    groups = selectors.groups_of(along())
    many = [selectors.Group(group.arm, group.members * 10) for group in groups]
    law._fitted.cache_clear()

    begun = time.process_time()
    with CaptureQueriesContext(connection) as captured:
        first = law.axis_law(many)
    took = time.process_time() - begun
    begun = time.process_time()
    again = law.axis_law(many)

    assert again == first
    assert len(captured) == 0
    assert took < 0.5 and np.isfinite(first["curve"][0]["ceiling"]["value"])
    hits = law._fitted.cache_info()
    assert hits.misses == 2

"""Study files: what they say, and what is refused with its line."""

from pathlib import Path

import pytest

from training.study.file import StudyFileError, load_study


def refused(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(StudyFileError) as caught:
        load_study(tmp_path / "bad.yaml")
    assert all(line.startswith("bad.yaml, line ") for line in str(caught.value).splitlines())
    return [(one.line, one.field, one.reason) for one in caught.value.problems]


def test_a_file_says_what_is_asked(tmp_path, text):
    (tmp_path / "good.yaml").write_text(
        text.replace("cispo: {}", "cispo:\n        seeds: [5]\n        budget: {steps: 9}")
    )

    study = load_study(tmp_path / "good.yaml").says.studies[0]

    assert study.seeds_of("cispo") == [5] and study.seeds_of("dapo") == [0, 1]
    assert study.budget_of("cispo").steps == 9 and study.budget_of("dapo").steps == 6
    assert study.arms["dapo"].settings == {"loss.type": "dapo"}
    assert study.judgement.yes.startswith("An interval")


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "reason"),
    [
        ("baseline: cispo", "baseline: gspo", 13, "studies.0.baseline", "no arm 'gspo'; there are: cispo, dapo"),
        ("seeds: [0, 1]", "seeds: [0, 1, 0]", 14, "studies.0.seeds.2", "seed 0 stands there twice"),
        ("seeds: [0, 1]", "seeds: [0, -1]", 14, "studies.0.seeds.1", "greater than or equal to 0"),
        ("steps: 6", "steps: 0", 15, "studies.0.budget.steps", "greater than or equal to 1"),
        ("steps: 6", "steps: -3", 15, "studies.0.budget.steps", "greater than or equal to 1"),
        ("steps: 6", "steps: 1000001", 15, "studies.0.budget.steps", "less than or equal to 1000000"),
        ("steps: 6", "steps: six", 15, "studies.0.budget.steps", "valid integer"),
        ("minutes: 1}", "minutes: .inf}", 15, "studies.0.budget.minutes", "less than or equal to 10080"),
        ("axis: tokens", "axis: hours", 16, "studies.0.axis", "'device_hours', 'flops', 'tokens' or 'steps'"),
        ("    axis: tokens\n", "", 3, "studies.0.axis", "is missing"),
        ("margin: 0.02", "margin: 0", 19, "studies.0.judgement.margin", "greater than 0"),
        ("      no: It", "      nay: It", 21, "studies.0.judgement.nay", "no such field"),
        ("        loss.type: dapo", "        seed: 3", 12, "studies.0.arms.dapo.seed", "fields of its own"),
        ("engine.type: transformers", "budget.max_steps: 3", 7, "studies.0.settings.budget.max_steps", "of its own"),
        ("      dapo:", "      cispo:", 11, "studies.0.arms.cispo", "stands there twice"),
        ("title: A small file", "titel: A small file", 1, "titel", "no such field"),
        ("- name: loss", "- name: Loss one", 3, "studies.0.name", "match pattern"),
        ("- name: loss", "- name: &it loss", 3, "", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path, text, old, new, line, field, reason):
    assert old in text
    if new == "- name: &it loss":
        text, field, reason = text.replace("baseline: cispo", "baseline: *it"), "", "has an alias (*it)"
        line = 13

    problems = refused(tmp_path, text.replace(old, new))

    assert any(one[:2] == (line, field) and reason in one[2] for one in problems), problems


def test_all_problems_are_told_at_once(tmp_path, text):
    problems = refused(tmp_path, text.replace("steps: 6", "steps: 0").replace("axis: tokens", "axis: x"))

    assert [line for line, _, _ in problems] == [15, 16]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "is empty"),
        ("title: [", 1, "is not YAML"),
        ("a: 1\nb: {c: 1", 2, "is not YAML"),
        ("- 1", 1, "valid dictionary"),
        ("[" * 20 + "]" * 20, 1, "nested deeper"),
        ("{[1]: 2}", 1, "no word"),
        ("#" * 600_000, 1, "bytes"),
        ("\x00", 1, "is not YAML"),
    ],
)
def test_what_is_no_study_file_is_refused(tmp_path, text, line, reason):
    (found,) = refused(tmp_path, text)

    assert found[0] == line and reason in found[2]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StudyFileError, match="No such file"):
        load_study(tmp_path / "none.yaml")


def test_words_are_words_and_numbers_are_numbers(tmp_path, text):
    settings = "optimizer.lr: 1e-4\n      filter.zero_variance: no\n      trainer.compile: true"
    (tmp_path / "good.yaml").write_text(text.replace("engine.type: transformers", settings))

    read = load_study(tmp_path / "good.yaml").says.studies[0].settings

    assert read == {
        "eval.every_steps": 3,
        "optimizer.lr": 1e-4,
        "filter.zero_variance": "no",
        "trainer.compile": True,
    }

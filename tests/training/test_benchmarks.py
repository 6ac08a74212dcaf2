"""Benchmarks by name, their data offline, and overlap with training prompts."""

import json
from pathlib import Path

import pytest

from tests.training.data.rows import ROWS
from training.benchmarks import BENCHMARKS, contamination, make_benchmark
from training.tasks import Prompt, TaskError


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_every_benchmark_reads_all_problems_of_a_file(tmp_path: Path, name: str) -> None:
    source = BENCHMARKS[name][1]["source"]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.jsonl").write_text(json.dumps(ROWS[source]) + "\n")

    benchmark = make_benchmark(name, {"path": "test.jsonl"}, tmp_path)

    (prompt,) = benchmark.prompts
    assert benchmark.task.verifier(prompt).verify(prompt.answer, "nothing").correct is False


def test_missing_data_are_named_with_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    with pytest.raises(TaskError, match=r"\.jsonl .*\.parquet files into .*data/hub/openai--gsm8k/main/test"):
        make_benchmark("gsm8k", {}, tmp_path)


def test_the_test_split_alone_is_needed(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "hub" / "openai--gsm8k" / "main" / "test"
    folder.mkdir(parents=True)
    (folder / "0.jsonl").write_text(json.dumps(ROWS["gsm8k"]) + "\n")

    assert len(make_benchmark("gsm8k", {}, tmp_path).prompts) == 1


def test_a_task_gives_its_held_out_prompts(tmp_path: Path) -> None:
    benchmark = make_benchmark(
        "arithmetic", {"max_digits": 2, "held_out_pool": 7, "train_prompts": 9}, tmp_path
    )

    assert len(benchmark.prompts) == 7


def test_an_unknown_name_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no benchmark named 'chess'; there are: gsm8k, math500"):
        make_benchmark("chess", {}, tmp_path)


def prompts(*texts: str, part: str = "") -> list[Prompt]:
    return [Prompt(f"{part}{text}", f"Solve: {text} Put it in a box.", "", part) for text in texts]


LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


def test_thirteen_words_in_a_row_are_an_overlap_and_templates_are_none() -> None:
    benchmark = prompts(LONG, LONG.replace("seven", "7"), "What is two and two?", "Why?")

    assert contamination(benchmark, prompts(f"Once {LONG.upper()}, and more", "Other words")) == 0.25
    assert contamination(benchmark, prompts("What is two and two?", "Other words")) == 0.25
    assert contamination(benchmark, prompts("What is three and two?", "Other words")) == 0
    assert (
        contamination(prompts("a", "a a"), prompts("b", "b b")) == 0
    )  # nothing but template is left of the first
    assert (
        contamination(benchmark, [*prompts("Why?", "Else", part="a"), *prompts(LONG, "1", part="b")]) == 0.5
    )


def test_a_problem_of_several_texts_is_one_that_is_seen_by_any_of_them() -> None:
    """As rows of lm-evaluation-harness are: a question and, in columns of their own, its name and its answer."""
    rows = [("1", "What is two and two?", "four"), ("2", "What is nine?", "nine"), ("3", "Why?", "so")]
    benchmark = [
        Prompt(key, text, "", part) for key, *texts in rows for part, text in zip("qa", texts, strict=True)
    ]

    assert contamination(benchmark, [Prompt("t", "what is two and two", "")]) == pytest.approx(1 / 3)
    assert contamination(benchmark, [Prompt("t", "what is ten", "")]) == 0

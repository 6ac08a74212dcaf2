"""Samples as files: whatever a trainer hands over is kept within bounds, whole or not at all, and found again."""

from pathlib import Path
from typing import Any

import pytest

from training import samples
from training.samples import SamplesError, Wanted, prepare, read, steps_in, superfluous, write


def a_row(number: int = 0, **others: Any) -> dict[str, Any]:
    return {
        "prompt_id": f"p{number // 2}", "prompt": f"{number // 2} + 1 =", "response": f"<think>…</think>{number}",
        "reward": float(number), "tokens": 10 * number, "difficulty": number / 10, "correct": number % 2 == 0,
        "judged": True, "truncated": number == 3, "interrupted": False, "forced": 0, "advantage": 1.0,
    } | others  # fmt: skip


def test_rows_come_back_prompt_by_prompt(tmp_path: Path) -> None:
    given = [a_row(number) for number in (0, 2, 1, 3)]

    path = write(tmp_path / "samples", "eval", 25, prepare(given).rows)

    rows, total = read(path)
    assert path.name == "eval-00000025.parquet" and total == 4
    assert [(row["group"], row["sample"], row["reward"]) for row in rows] == [
        (0, 0, 0.0), (0, 1, 1.0), (1, 0, 2.0), (1, 1, 3.0),
    ]  # fmt: skip
    assert {name: rows[3][name] for name in a_row(3)} == a_row(3)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(), [0, 1, 2, 3]),
        (Wanted(prompt_id="p1"), [2, 3]),
        (Wanted(reward_min=1, reward_max=2), [1, 2]),
        (Wanted(tokens_min=20), [2, 3]),
        (Wanted(difficulty_max=0.1), [0, 1]),
        (Wanted(flags=("incorrect",)), [1, 3]),
        (Wanted(flags=("incorrect", "truncated")), [3]),
        (Wanted(text="2 + 1"), []),
        (Wanted(text="</THINK>2"), [2]),
    ],
)
def test_rows_are_found_by_what_is_asked(tmp_path: Path, wanted: Wanted, found: list[int]) -> None:
    path = write(tmp_path, "train", 1, prepare(a_row(number) for number in range(4)).rows)

    rows, total = read(path, wanted)

    assert [row["reward"] for row in rows] == found and total == len(found)


def test_a_page_of_many_rows(tmp_path: Path) -> None:
    path = write(tmp_path, "train", 1, prepare(a_row(number) for number in range(200)).rows)

    rows, total = read(path, Wanted(flags=("correct",)), first=60, most=3)

    assert [row["reward"] for row in rows] == [120, 122, 124] and total == 100


def test_a_response_of_a_megabyte_is_cut_in_the_middle_with_a_mark() -> None:
    (row,) = prepare([a_row(response="a" * 500_000 + "b" * 500_000)]).rows

    assert row["characters"] == 1_000_000
    assert row["response"].startswith("aaa") and row["response"].endswith("bbb")
    assert "\n[… 800,000 characters left out …]\n" in row["response"]
    assert len(row["response"]) < samples.MOST_OF_A_RESPONSE + 50


def test_more_than_a_file_takes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST_ROWS", 3)
    assert [len(prepared.rows) for prepared in [prepare(a_row(i) for i in range(5))]] == [3]
    assert prepare(a_row(number) for number in range(5)).left_out == 2

    monkeypatch.setattr(samples, "MOST_CHARACTERS", 50)
    assert prepare([a_row(0), a_row(1, response="x" * 60), a_row(2)]).left_out == 2


def test_columns_of_other_trainers_are_known_and_the_rest_is_kept() -> None:
    (row,) = prepare([{"input": "2 + 2 =", "output": "4", "gts": 4, "score": 1.0, "step": 7}]).rows

    assert (row["prompt"], row["response"], row["answer"], row["reward"]) == ("2 + 2 =", "4", "4", 1.0)
    assert row["extra"] == '{"step": 7}' and row["correct"] is None and row["judged"] is False
    assert row["prompt_id"] == prepare([{"prompt": "2 + 2 ="}]).rows[0]["prompt_id"] != ""


def test_a_conversation_is_a_text() -> None:
    (row,) = prepare([{"prompt": [{"role": "user", "content": "Why?"}], "completion": "So."}]).rows

    assert (row["prompt"], row["response"]) == ("user: Why?", "So.")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "high", None, True, [1]])
def test_what_is_no_number_is_unknown(value: Any) -> None:
    assert prepare([a_row(reward=value)]).rows[0]["reward"] is None


def test_a_count_below_zero_is_unknown() -> None:
    (row,) = prepare([a_row(reward=-1, tokens=-3)]).rows

    assert (row["reward"], row["tokens"]) == (-1.0, None)


def test_texts_that_no_file_or_database_takes_are_made_to_fit(tmp_path: Path) -> None:
    path = write(tmp_path, "eval", 0, prepare([a_row(response="a\ud800b\0c", prompt_id="\0")]).rows)

    (row,), _ = read(path)

    assert row["response"] == "a?b␀c" and row["prompt_id"] == "␀"


def test_a_step_that_is_made_again_is_there_once(tmp_path: Path) -> None:
    for reward in (1.0, 2.0):
        write(tmp_path, "eval", 5, prepare([a_row(reward=reward)]).rows)

    assert steps_in(tmp_path, "eval") == [5]
    assert read(tmp_path / "eval-00000005.parquet")[0][0]["reward"] == 2.0
    assert [path.name for path in tmp_path.iterdir()] == ["eval-00000005.parquet"]


def test_a_resume_removes_what_came_after_it(tmp_path: Path) -> None:
    for kind in samples.KINDS:
        for step in (5, 10):
            write(tmp_path, kind, step, prepare([a_row()]).rows)
    (tmp_path / ".eval-00000015.parquet.1.partial").write_bytes(b"half")

    samples.remove_after(tmp_path, 5)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "eval-00000005.parquet",
        "train-00000005.parquet",
    ]


def test_beyond_the_bound_an_even_spread_stays() -> None:
    steps = list(range(100))
    gone: list[int] = []
    for step in range(100, 400):
        steps.append(step)
        went = superfluous(steps, 20)
        gone += went
        steps = [each for each in steps if each not in went]

    gaps = [after - before for before, after in zip(steps, steps[1:], strict=False)]
    assert (steps[0], steps[-1], len(steps)) == (0, 399, 20)
    assert max(gaps) <= 60 and len(set(gone)) == 380


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "eval-00000001.parquet"
    path.write_bytes(b"PAR1 and then nothing")

    with pytest.raises(SamplesError, match="eval-00000001.parquet cannot be read"):
        read(path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "eval-00000002.parquet")


@pytest.mark.parametrize(("kind", "step"), [("test", 1), ("eval", -1), ("eval", 10**18)])
def test_what_is_no_step_has_no_file(kind: str, step: int) -> None:
    with pytest.raises(SamplesError):
        samples.file_name(kind, step)

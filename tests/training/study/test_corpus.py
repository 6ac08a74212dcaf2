"""The corpus: what is kept of a run, and that it reads as it was written."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import headroom
from training.study import corpus
from training.study.book import MOST_DIAGNOSTICS, points_of
from training.study.corpus import CorpusError, CorpusRun, point_table, read_corpus, write_corpus
from training.study.plan import Place

BEGAN = "2026-01-01T00:00:00+00:00"


def a_run(number: int, **changes: object) -> CorpusRun:
    made = CorpusRun(
        id=f"run{number}", places=(Place("loss", "cispo"),), recipe="tiny/scalerl", content_hash="h" * 64,
        task="arithmetic", model="tiny", seed=number, steps=100, state="succeeded", reason="", failed_tries=0,
        began=BEGAN, wall_seconds=12.5, cpu_free_share=None, config={"seed": number, "loss": {"type": "cispo"}},
        versions={"python": "3.11"}, machine={"cores": 2},
    )  # fmt: skip
    return replace(made, **changes)


def some_points(run: CorpusRun, number: int = 3):
    rows = [("eval/pass_rate", i, 1.5 * i, i / 10, None, 2.0**30 + i, i / 7, 0.01) for i in range(number)]
    return point_table(run.id, rows)


def test_it_reads_as_it_was_written(tmp_path):
    first, second, lost = a_run(1), a_run(2), a_run(3, state="lost", reason="why")
    tables = [some_points(second, 2), some_points(first), point_table(lost.id, [])]

    write_corpus(tmp_path, [second, first, lost], tables, b"title: x\n")
    read = read_corpus(tmp_path)

    assert list(read.runs.values()) == [first, second, lost]
    assert read.study == b"title: x\n"
    points = read.points("run1")
    assert points.step.tolist() == [0, 1, 2]
    assert points.value == pytest.approx([0, 1 / 7, 2 / 7], rel=1e-7)
    assert points.tokens.tolist() == [2.0**30, 2.0**30 + 1, 2.0**30 + 2]
    assert np.isnan(points.flops).all()
    assert len(read.points("run2").step) == 2 and len(read.points("run3").step) == 0


def test_the_same_content_gives_the_same_bytes(tmp_path):
    runs = [a_run(number) for number in range(4)]
    tables = [some_points(run, 50) for run in runs]
    write_corpus(tmp_path / "a", runs, tables, b"x")

    write_corpus(tmp_path / "b", runs[::-1], tables[::-1], b"x")
    read = read_corpus(tmp_path / "b")
    write_corpus(tmp_path / "c", read.runs.values(), [read.table_of(name) for name in read.runs], b"x")

    for name in (corpus.RUNS, corpus.POINTS):
        assert len({(tmp_path / folder / name).read_bytes() for folder in "abc"}) == 1


def test_a_corpus_without_runs_or_points(tmp_path):
    write_corpus(tmp_path, [], [], b"")

    assert read_corpus(tmp_path).runs == {}
    assert len(read_corpus(tmp_path).points("none").step) == 0


@pytest.mark.parametrize("damage", ["runs.parquet", "points.parquet", "study.yaml"])
def test_a_broken_corpus_is_refused_with_its_name(tmp_path, damage):
    write_corpus(tmp_path, [a_run(1)], [some_points(a_run(1))], b"x")
    if damage.endswith("yaml"):
        (tmp_path / damage).unlink()
    else:
        (tmp_path / damage).write_bytes(b"PAR1 this is none")

    with pytest.raises(CorpusError, match=f"the corpus {tmp_path} cannot be read"):
        read_corpus(tmp_path)


def journal_of(path: Path, steps: int, *, resumed_from: int | None = None) -> None:
    run = headroom.init(journal=path, resumed_from_step=resumed_from)
    for step in range((resumed_from or 0) + 1, steps + 1):
        compute = {"device_hours": step / 10, "flops": float(step), "tokens": float(step)}
        run.log({"train/reward": float(step), "train/rare": 1.0} if step == 5 else {"train/reward": float(step)},
                step=step, compute=compute)  # fmt: skip
        run.log({"eval/pass_rate": step / 1000, "eval/pass_rate_stderr": 0.01, "eval/k": 4.0, "eval/bad": float("nan")},
                step=step, compute=compute)  # fmt: skip
    run.finish()


def test_evaluations_are_kept_whole_and_diagnostics_thinned(tmp_path):
    journal_of(tmp_path / "metrics.jsonl", 200)
    run = a_run(1)

    write_corpus(tmp_path / "c", [run], [points_of(tmp_path / "metrics.jsonl", run.id, BEGAN)], b"")
    points = read_corpus(tmp_path / "c").points(run.id)

    assert points.of("eval/pass_rate").step.tolist() == list(range(1, 201))
    assert points.of("eval/pass_rate").stderr == pytest.approx(0.01)
    reward = points.of("train/reward")
    assert len(reward.step) == MOST_DIAGNOSTICS and (reward.step[0], reward.step[-1]) == (1, 200)
    assert reward.value.tolist() == reward.step.tolist()
    assert points.of("train/rare").step.tolist() == [5]
    assert set(points.metric) == {"eval/pass_rate", "eval/k", "train/reward", "train/rare"}
    assert (np.diff(points.step) >= 0).all()


def test_what_a_later_attempt_superseded_is_left_out(tmp_path):
    journal = tmp_path / "metrics.jsonl"
    journal_of(journal, 8)
    journal_of(journal, 10, resumed_from=5)
    with journal.open("a") as file:
        file.write('{"attempt": 2, "torn')

    table = points_of(journal, "run1", BEGAN)

    steps = [row["step"] for row in table.to_pylist() if row["metric"] == "eval/pass_rate"]
    assert steps == list(range(1, 11))
    lines = [json.loads(line) for line in journal.read_text().splitlines()[:-1]]
    assert sum("eval/pass_rate" in line["metrics"] for line in lines) == 13

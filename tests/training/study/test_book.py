"""Which runs of a corpus are those that a study file plans, and what of their records it keeps."""

import json
from pathlib import Path

from stack.environment import ROOT
from training.study.book import Book, points_of
from training.study.file import load_study
from training.study.plan import plan


def test_a_run_counts_that_was_trained_before_the_schema_had_all_of_todays_settings() -> None:
    runs = plan(load_study(ROOT / "corpus" / "miniature.yaml"))
    book = Book(ROOT / "corpus" / "miniature", runs)
    older = [one for one in book.runs.values() if "lora_rank" not in one.config["trainer"]]

    assert older and all(one.places for one in older)
    assert sum(map(book.has_succeeded, runs)) == sum(one.state == "succeeded" for one in book.runs.values())


def test_what_machines_do_with_their_names_is_not_published(tmp_path: Path) -> None:
    began = "2026-01-01T00:00:00+00:00"
    record = {
        "attempt": 1, "step": 1, "time": began, "compute": {"device_hours": 0.1, "flops": 1.0, "tokens": 1},
        "metrics": {"train/loss": 1.0, "system/secret-host/host/cpu_fraction": 0.5},
    }  # fmt: skip
    journal = tmp_path / "metrics.jsonl"
    journal.write_text(json.dumps(record) + "\n")

    assert points_of(journal, "r1", began).column("metric").to_pylist() == ["train/loss"]

"""Which runs of a corpus are those that a study file plans."""

from stack.environment import ROOT
from training.study.book import Book
from training.study.file import load_study
from training.study.plan import plan


def test_a_run_counts_that_was_trained_before_the_schema_had_all_of_todays_settings() -> None:
    runs = plan(load_study(ROOT / "corpus" / "miniature.yaml"))
    book = Book(ROOT / "corpus" / "miniature", runs)
    older = [one for one in book.runs.values() if "lora_rank" not in one.config["trainer"]]

    assert older and all(one.places for one in older)
    assert sum(map(book.has_succeeded, runs)) == sum(one.state == "succeeded" for one in book.runs.values())

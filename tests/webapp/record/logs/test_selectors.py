"""Reading a kept log by line numbers and by words, across chunks."""

import pytest

from webapp.record.logs import chunking, selectors, services
from webapp.record.logs.selectors import Kept

pytestmark = pytest.mark.django_db


@pytest.fixture
def kept(job, monkeypatch) -> Kept:
    """3,000 lines in many chunks."""
    monkeypatch.setattr(chunking, "CHUNK_BYTES", 300)
    monkeypatch.setattr(selectors, "CHUNKS_AT_ONCE", 3)
    job.prints("".join(f"step {i} {'WARNING straße' if i % 100 == 0 else ''}\n" for i in range(1, 3001)))
    services.follow()
    return Kept(job.attempt)


def numbers(lines):
    return [line.number for line in lines]


def test_lines_are_read_from_any_place_in_both_directions(kept):
    assert numbers(kept.after(0, 3)) == [1, 2, 3]
    assert numbers(kept.after(2997, 10)) == [2998, 2999, 3000]
    assert numbers(kept.after(3000, 10)) == []
    assert numbers(kept.before(1500, 200)) == list(range(1300, 1500))
    assert numbers(kept.before(1, 5)) == []
    assert numbers(kept.newest(2)) == [2999, 3000]
    assert numbers(kept.after(0, 5000)) == list(range(1, 3001))


@pytest.mark.parametrize("wanted", ["warning", "WARNING", "Straße", "straße"])
def test_words_are_found_in_any_case(kept, wanted):
    assert numbers(kept.matching(wanted, 3)) == [100, 200, 300]
    assert numbers(kept.matching(wanted, 3, after=2800)) == [2900, 3000]
    assert numbers(kept.newest_matching(wanted, 2)) == [2900, 3000]


@pytest.mark.parametrize("wanted", ["%", "_", "\\", "step 3.00", "no such thing"])
def test_nothing_is_a_pattern(kept, wanted):
    assert kept.matching(wanted, 10) == []

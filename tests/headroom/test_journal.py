import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom.journal import Journal, JournalBusy, JournalState, sealed, unsealed
from tests.headroom.subprocesses import run_python


def append(journal: Journal, *steps: int, attempt: int = 1) -> None:
    for step in steps:
        journal.append(attempt, {"step": step})


def test_record_is_one_line_of_json_on_disk_when_append_returns(journal_path: Path) -> None:
    journal = Journal(journal_path)
    append(journal, 7)

    record = json.loads(journal_path.read_text())
    assert len(record.pop("crc")) == 8
    assert record == {"attempt": 1, "seq": 0, "step": 7}
    assert journal_path.read_bytes().endswith(b"\n")
    journal.close()


def test_sequence_numbers_continue_in_each_attempt(journal_path: Path) -> None:
    first = Journal(journal_path)
    append(first, 1, 2)
    append(first, 2, attempt=2)
    first.close()

    second = Journal(journal_path)
    append(second, 3, attempt=2)

    keys = [(r["attempt"], r["seq"]) for r in map(json.loads, journal_path.read_text().splitlines())]
    assert keys == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert second.last_attempt() == 2
    second.close()


@pytest.mark.parametrize(
    "torn",
    [b'{"attempt":1,"seq":2,"st', b'{"attempt":1,"seq":2,"step":3}', b"\x00\x00\xff"],
    ids=["half", "no-newline", "garbage"],
)
def test_torn_last_line_is_cut_off(journal_path: Path, torn: bytes) -> None:
    journal = Journal(journal_path)
    append(journal, 1, 2)
    journal.close()
    journal_path.write_bytes(journal_path.read_bytes() + torn)

    repaired = Journal(journal_path)
    append(repaired, 9)

    assert [json.loads(line)["step"] for line in journal_path.read_text().splitlines()] == [1, 2, 9]
    repaired.close()


def test_lines_respects_its_limits_and_always_makes_progress(journal_path: Path) -> None:
    journal = Journal(journal_path)
    append(journal, *range(10))
    size = len(journal_path.read_bytes()) // 10

    assert len(journal.lines(0, max_lines=4, max_bytes=10**6)) == 4
    assert len(journal.lines(0, max_lines=10, max_bytes=3 * size)) == 3
    assert len(journal.lines(0, max_lines=10, max_bytes=1)) == 1
    assert journal.lines(journal.end, max_lines=10, max_bytes=10**6) == []
    journal.close()


def test_second_journal_on_the_same_file_is_refused(journal_path: Path) -> None:
    journal = Journal(journal_path)
    with pytest.raises(JournalBusy, match="already open in this process"):
        Journal(journal_path)
    code = f"from headroom.journal import Journal; from pathlib import Path; Journal(Path({str(journal_path)!r}))"
    result = run_python(code)
    journal.close()

    assert "JournalBusy" in result.stderr and "another process" in result.stderr
    Journal(journal_path).close()


def test_full_disk_keeps_the_record_for_the_next_write(journal_path: Path) -> None:
    # A file size limit stands for a full disk: the kernel then refuses writes in the same way.
    code = f"""
import json, resource, signal
from pathlib import Path
from headroom.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path({str(journal_path)!r}))
journal.append(1, {{"step": 0}})
resource.setrlimit(resource.RLIMIT_FSIZE, (40, resource.RLIM_INFINITY))
try:
    journal.append(1, {{"step": 1}})
    print("written")
except OSError:
    print(len(Path({str(journal_path)!r}).read_bytes()) == journal.end)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.append(1, {{"step": 2}})
"""
    result = run_python(code)

    assert result.stdout == "True\n", result.stderr
    assert [json.loads(line)["step"] for line in journal_path.read_text().splitlines()] == [0, 1, 2]


def test_records_that_neither_disk_nor_memory_takes_are_counted(journal_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("headroom.journal.MAX_UNWRITTEN", 2)
    journal = Journal(journal_path)

    def full(self: Journal) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Journal, "_write_out", full)
        for step in range(5):
            with pytest.raises(OSError, match="No space"):
                journal.append(1, {"step": step})
    journal.flush()
    journal.close()

    assert [json.loads(line)["step"] for line in journal_path.read_text().splitlines()] == [3, 4]
    again = Journal(journal_path)
    assert (again.refused[1].records, again.refused[1].values) == (3, 0)
    again.close()


def test_state_of_another_run_or_past_the_end_counts_for_nothing(journal_path: Path) -> None:
    journal = Journal(journal_path)
    append(journal, 1)
    journal.save_state(JournalState("r1", journal.end))

    assert journal.load_state("r1") == JournalState("r1", journal.end)
    assert journal.load_state(None) == JournalState("r1", journal.end)
    assert journal.load_state("r2") == JournalState("r2", 0)
    journal.save_state(JournalState("r1", journal.end + 1))
    assert journal.load_state("r1") == JournalState("r1", 0)
    (journal_path.parent / "metrics.jsonl.state").write_text("{half")
    assert journal.load_state("r1") == JournalState("r1", 0)
    journal.close()


RECORD = {"attempt": 1, "seq": 3, "step": 7, "metrics": {'a","crc":"00000000': 0.1}}


def test_what_was_sealed_is_the_record_again() -> None:
    line = sealed(RECORD)

    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(unsealed(line) or b"null") == RECORD


@given(place=st.integers(min_value=0), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found(place: int, bit: int) -> None:
    line = bytearray(sealed(RECORD)[:-1])
    place %= len(line)
    line[place] ^= 1 << bit
    found = unsealed(bytes(line))

    assert found is None or json.loads(found) != RECORD or place >= len(line) - 20


def test_lines_of_earlier_versions_have_no_checksum() -> None:
    assert unsealed(b'{"step":1}\n') == b'{"step":1}'
    assert unsealed(b'["step"]\n') is None
    assert unsealed(b"\xff\n") is None

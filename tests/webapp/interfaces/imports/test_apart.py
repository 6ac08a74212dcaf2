"""Files that would take gigabytes or hours: each ends in a child of its own, within its limits, in one sentence."""

import json
import random
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import zipfile
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.deep import IS_DEEP
from tests.webapp.interfaces.imports.readers.reading import SAMPLES
from webapp.interfaces.imports import apart
from webapp.interfaces.imports.readers.kinds import KINDS
from webapp.interfaces.imports.readers.rows import BadSource, Options

FILES = 2000 if IS_DEEP else 40
MEGABYTE = 1024**2


def parquet_bomb(path: Path) -> None:
    """One text of a megabyte, which each of a thousand rows has: 3 kB that are a gigabyte once they are unpacked."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * MEGABYTE]))
    table = pa.table({"step": pa.array(range(1000)), "text": text})
    pq.write_table(table, path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 20_000


def quoted_lines(path: Path) -> None:
    path.write_bytes(b'"step' + b"\n" * 8_000_000 + b'",loss\n1,2\n')


def many_cells(path: Path) -> None:
    path.write_bytes(b"step" + b',""' * 1_300_000 + b"\n1\n")


def crowded_zip(path: Path, entries: int = 1_000_000) -> None:
    """A directory of a million entries and nothing else."""
    entry = b"PK\1\2" + bytes(24) + struct.pack("<HHHHHII", 4, 0, 0, 0, 0, 0, 0)
    names = b"".join(entry + b"%04x" % (number & 0xFFFF) for number in range(entries))
    count = min(entries, 0xFFFF)
    path.write_bytes(names + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(names), 0, 0))


def deep_jsonl(path: Path) -> None:
    path.write_bytes(b'{"step": 1, "data": ' + b"[" * 2_000_000 + b"\n")


@pytest.fixture
def watched():
    """This process reads nothing of a file itself."""
    before = psutil.Process().memory_info().rss
    yield
    assert psutil.Process().memory_info().rss - before < 100 * MEGABYTE


@pytest.mark.parametrize(
    ("kind", "name", "make"),
    [
        ("parquet", "bomb.parquet", parquet_bomb),
        ("csv", "quoted.csv", quoted_lines),
        ("csv", "cells.csv", many_cells),
        ("verl", "deep.jsonl", deep_jsonl),
    ],
)
def test_a_file_that_would_take_gigabytes_ends_in_one_sentence(tmp_path, watched, kind, name, make):
    make(tmp_path / name)

    with pytest.raises(BadSource) as caught, apart.read(kind, tmp_path / name, Options()) as runs:
        for run in runs:
            assert list(run.rows())
    assert str(caught.value).count("\n") == 0
    assert not re.search(r"\d{5}", str(caught.value))  # numbers are parted as on all pages
    assert name in str(caught.value) and "/" not in str(caught.value).replace("and/or", "")


@pytest.mark.parametrize(("name", "make"), [("bomb.parquet", parquet_bomb), ("quoted.csv", quoted_lines)])
def test_their_beginning_is_not_shown_either(tmp_path, watched, name, make):
    make(tmp_path / name)

    with pytest.raises(BadSource):
        apart.preview(tmp_path.joinpath(name).suffix[1:], tmp_path / name, Options())
    apart.guess_kind(tmp_path / name)


def test_a_zip_with_a_million_names_is_refused_before_they_are_read(tmp_path, watched):
    crowded_zip(tmp_path / "many.zip")

    with pytest.raises(BadSource, match="more files, or longer names"):
        apart.unpack(tmp_path / "many.zip", tmp_path / "out", max_bytes=10**9)


def test_a_database_that_unfolds_does_not_fill_the_disk(tmp_path, watched, settings):
    """A column that is worked out: a megabyte of text in each row, which are then sorted."""
    settings.IMPORT_MAX_BYTES = 20 * MEGABYTE
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as store:
        store.executescript("""
            CREATE TABLE experiments (experiment_id, name); INSERT INTO experiments VALUES (1, 'e');
            CREATE TABLE runs (run_uuid, name, status, experiment_id, lifecycle_stage, start_time);
            INSERT INTO runs VALUES ('r', 'n', 'FINISHED', 1, 'active', 1);
            CREATE TABLE params (key, value, run_uuid); CREATE TABLE tags (key, value, run_uuid);
            CREATE TABLE metrics (run_uuid, key, value, step, is_nan);
            WITH RECURSIVE rows(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows WHERE n < 10000)
            INSERT INTO metrics SELECT 'r', 'loss', 1, n, 0 FROM rows;
            ALTER TABLE metrics ADD COLUMN timestamp AS (hex(zeroblob(490000)) || step);
        """)

    with (
        pytest.raises(BadSource, match=r"mlflow\.db: It takes more room to sort"),
        apart.read("mlflow", tmp_path / "mlflow.db", Options()) as (run,),
    ):
        list(run.rows())


@pytest.mark.parametrize("greedy", ["x = bytes(400 * 1024**2)", "while True: pass"], ids=["memory", "time"])
def test_a_child_gets_no_more_than_its_limits(greedy):
    script = f"from webapp.interfaces.imports.readers import child; child.limit(1, 60, 0)\n{greedy}"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)

    assert (
        "MemoryError" in ended.stderr
        or ended.returncode == -signal.SIGXCPU
        or ended.returncode == -signal.SIGKILL
    )


@pytest.mark.parametrize(("megabytes", "seconds"), [(0, 60), (100, 160), (2000, 600)])
def test_the_time_to_read_is_in_proportion_to_the_file(tmp_path, megabytes, seconds):
    with (tmp_path / "a.csv").open("wb") as file:
        file.truncate(megabytes * 1_000_000)

    assert apart.read_seconds(tmp_path / "a.csv") == apart.read_seconds(tmp_path) == seconds


def test_a_child_that_is_killed_is_said_to_have_broken(tmp_path):
    """At the time when it has said its runs, and before it says their rows."""
    (tmp_path / "a.csv").write_text("step,loss\n1,2\n" * 10)

    broken = pytest.raises(BadSource, match=r"a\.csv: It takes too much time or memory")
    with broken, apart.read("csv", tmp_path / "a.csv", Options()) as (run,):
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "webapp.interfaces.imports.readers.child" in each.cmdline():
                    each.kill()
        list(run.rows())


def test_what_is_read_apart_is_what_is_read_here():
    path = SAMPLES / "history.parquet"
    here = KINDS["wandb-history"].read(path, Options())

    with apart.read("wandb-history", path, Options()) as there:
        assert [(run.key, run.name, list(run.rows())) for run in there] == [
            (run.key, run.name, list(run.rows())) for run in here
        ]


def test_rows_that_nobody_took_to_their_end_are_passed_over(tmp_path):
    lines = [f"{run},{step},0.5" for run in "ab" for step in range(5000)]
    (tmp_path / "two.csv").write_text("run,step,loss\n" + "\n".join(lines) + "\n")

    with apart.read("csv", tmp_path / "two.csv", Options()) as (first, second):
        next(first.rows())
        assert [row.step for row in second.rows()] == list(range(5000))


def test_readers_are_started_anew_once_they_have_gone(tmp_path):
    (tmp_path / "a.csv").write_text("step,loss\n1,2\n")
    assert apart.guess_kind(tmp_path / "a.csv") == "csv"
    apart._readers._control.close()

    assert apart.guess_kind(tmp_path / "a.csv") == "csv"


@pytest.mark.long_form
@pytest.mark.timeout(3600)
def test_made_up_files_end_in_one_sentence(tmp_path, watched):
    """Real files with bytes changed, cut, repeated and mixed, read as every kind."""
    rng = random.Random(2026)
    seeds = [path for path in SAMPLES.rglob("*") if path.is_file() and path.stat().st_size < 200_000]
    kinds = [name for name, kind in KINDS.items() if not kind.in_place and kind.takes != "address"]
    outcomes = {"read": 0, "refused": 0}
    for number in range(FILES):
        source = rng.choice(seeds)
        path = tmp_path / f"{number}{''.join(source.suffixes[-2:])}"
        path.write_bytes(mutated(source.read_bytes(), rng))
        kind = apart.guess_kind(path) if number % 2 else rng.choice(kinds)
        outcomes[outcome(kind or "csv", path)] += 1
        path.unlink()

    print(f"{FILES} files: {outcomes}")
    assert outcomes["refused"] > FILES / 10


def outcome(kind: str, path: Path) -> str:
    try:
        with apart.read(kind, path, Options()) as runs:
            for run in runs:
                for _ in run.rows():
                    pass
    except (BadSource, ValueError) as error:
        assert str(error) and "\n" not in str(error)
        return "refused"
    return "read"


def mutated(data: bytes, rng: random.Random) -> bytes:
    content = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 3, 20])):
        at = rng.randrange(len(content) + 1)
        match rng.randrange(6):
            case 0:
                content[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del content[at : at + rng.choice([1, 8, 500])]
            case 2:
                content[at:at] = content[at : at + 100] * rng.choice([2, 50])
            case 3:
                content[at:at] = rng.choice(
                    [b"\xff" * 8, b"[" * 2000, b'"', b"\n" * 1000, b"9" * 5000, b"1e999", b"NaN"]
                )
            case 4:
                content[at : at + 4] = struct.pack("<I", rng.choice([2**31 - 1, 2**32 - 1, 10**6]))
            case 5:
                content[at : at + 8] = json.dumps({"step": 2**70}).encode()
    return bytes(content)


def test_zip_files_that_python_writes_are_within_the_bound(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        for number in range(2000):
            made.writestr(f"folder/{number}.csv", "step,loss\n1,2\n")

    apart.unpack(tmp_path / "a.zip", tmp_path / "out", max_bytes=10**9)
    assert len(list((tmp_path / "out/folder").iterdir())) == 2000

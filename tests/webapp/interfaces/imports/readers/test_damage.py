"""Binary files that were cut or changed: BadSource, or the whole records before; never a crash or a wrong number."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webapp.interfaces.imports.readers.reading import SAMPLES, read
from webapp.interfaces.imports.readers.rows import BadSource, Options, Row

FILES = {
    "wandb": next(SAMPLES.glob("wandb/*-done/*.wandb")),
    "tensorboard": next(SAMPLES.glob("tensorboard/old/*1760000000*")),
}
CONTENTS = {kind: path.read_bytes() for kind, path in FILES.items()}
KINDS = st.sampled_from(sorted(FILES))


def rows_before_damage(kind: str, content: bytes) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, FILES[kind].name)
        path.write_bytes(content)
        try:
            for run in read(kind, path, Options()):
                for row in run.rows():
                    rows.append(row)
        except BadSource as error:
            assert error.file == path.name and error.reason.endswith(".")
    return rows


WHOLE = {kind: rows_before_damage(kind, content) for kind, content in CONTENTS.items()}


def told(rows: list[Row]) -> list[tuple]:
    """What of a row does not depend on how much of its step was written."""
    return [(row.line, row.step, row.time) for row in rows]


@given(kind=KINDS, share=st.floats(0, 1, exclude_max=True))
def test_a_torn_file_gives_the_rows_before(kind: str, share: float) -> None:
    content = CONTENTS[kind]
    rows = rows_before_damage(kind, content[: int(len(content) * share)])
    assert told(rows) == told(WHOLE[kind][: len(rows)])
    for row, whole in zip(rows, WHOLE[kind], strict=False):
        assert row.metrics.items() <= whole.metrics.items()


@given(kind=KINDS, where=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_changed_byte_never_gives_another_number(kind: str, where: float, flip: int) -> None:
    content = bytearray(CONTENTS[kind])
    content[int(len(content) * where)] ^= flip
    rows = rows_before_damage(kind, bytes(content))
    assert told(rows) == told(WHOLE[kind][: len(rows)])
    for row, whole in zip(rows, WHOLE[kind], strict=False):
        assert row.metrics.items() <= whole.metrics.items()


@given(kind=KINDS, content=st.binary(max_size=200))
def test_any_bytes_behind_a_file(kind: str, content: bytes) -> None:
    rows = rows_before_damage(kind, CONTENTS[kind] + content)
    assert rows[: len(WHOLE[kind]) - 1] == WHOLE[kind][:-1]


@pytest.mark.parametrize("kind", sorted(FILES))
def test_room_that_was_set_aside_and_never_written_is_a_torn_tail(kind: str, tmp_path: Path) -> None:
    path = tmp_path / FILES[kind].name
    path.write_bytes(CONTENTS[kind] + bytes(5000))
    (run,) = read(kind, path, Options())
    assert list(run.rows()) == WHOLE[kind]
    list(run.rows())
    assert "in the middle of a record" in " ".join(run.notes)


@given(content=st.binary(max_size=300))
@pytest.mark.parametrize(
    "kind",
    ["csv", "parquet", "wandb", "wandb-history", "tensorboard", "verl", "prime-rl", "neptune", "headroom"],
)
def test_any_bytes_in_place_of_a_file(kind: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.jsonl" if kind == "headroom" else "file")
        path.write_bytes(content)
        try:
            for run in read(kind, path, Options()):
                list(run.rows())
        except BadSource:
            pass


@given(where=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_damaged_parquet_file_is_refused_or_read(where: float, flip: int) -> None:
    content = bytearray((SAMPLES / "history.parquet").read_bytes())
    content[int(len(content) * where)] ^= flip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "history.parquet")
        path.write_bytes(content)
        try:
            for run in read("wandb-history", path, Options()):
                list(run.rows())
        except BadSource:
            pass

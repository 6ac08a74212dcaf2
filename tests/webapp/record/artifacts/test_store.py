"""Files of runs: named by hostile clients, whole or not at all, within limits, gone with their run."""

import hashlib
import io
import os
import time
from functools import partial

import pytest

from tests.launching import tracked_run
from webapp.base.errors import Conflict, InvalidInput, NotFound
from webapp.identity.accounts.services import create_project
from webapp.identity.audit.models import Event
from webapp.record.artifacts import store
from webapp.record.artifacts.models import Artifact
from webapp.record.artifacts.store import TooLarge


@pytest.fixture
def run(db, settings, tmp_path):
    settings.HEADROOM_HOME = tmp_path
    return tracked_run(user=None, project=create_project(slug="math", name="Math"), name="elsewhere")


@pytest.fixture
def committed(django_capture_on_commit_callbacks):
    """committed(call, ...): its answer, once what waits for the end of the transaction was done."""

    def do(call, *arguments):
        with django_capture_on_commit_callbacks(execute=True):
            return call(*arguments)

    return do


def put(run, path, content, size=None):
    return store.store(run, path, io.BytesIO(content).read, size)


def content(run, path):
    with store.open_file(store.find(run, path)) as file:
        return file.read()


def files_on_disk(settings):
    folder = settings.HEADROOM_HOME / "artifacts"
    return sorted(str(path.relative_to(folder).parent) for path in folder.rglob("*") if path.is_file())


def test_a_file_is_found_by_its_path_with_size_and_digest(run, committed, settings):
    made = committed(put, run, "samples/step 10/ä%.txt", b"2 + 2 = 4", 9)

    assert (made.size, made.sha256) == (9, hashlib.sha256(b"2 + 2 = 4").hexdigest())
    assert content(run, "samples/step 10/ä%.txt") == b"2 + 2 = 4"
    assert files_on_disk(settings) == [run.pk]


def test_before_its_transaction_has_ended_a_file_is_read_from_where_it_was_received(run, settings):
    put(run, "a.txt", b"a")

    assert content(run, "a.txt") == b"a"
    assert files_on_disk(settings) == [".incoming"]


def test_the_same_path_again_takes_the_place_of_what_was_there(run, committed, settings):
    committed(put, run, "a.txt", b"old")
    committed(put, run, "a.txt", b"newer")

    assert content(run, "a.txt") == b"newer"
    assert [(one.path, one.size) for one in run.artifacts.all()] == [("a.txt", 5)]
    assert files_on_disk(settings) == [run.pk]


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "../a", "a/../../b", "a//b", "a/", ".", "a/.", "a\\b", "a\0b", "a\nb", "a\x1b[2Jb", "a/ /b",
        "a\u202eb", "x" * 501,
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere_or_cannot_be_shown_are_refused(run, settings, path):
    with pytest.raises(InvalidInput, match="path must") as error:
        put(run, path, b"a")

    assert error.value.field == "path"
    assert files_on_disk(settings) == [] and not Artifact.objects.exists()


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b/c", "a/b"), ("a/b/c", "a")])
def test_a_name_is_a_file_or_a_folder(run, committed, settings, first, second):
    committed(put, run, first, b"1")

    with pytest.raises(Conflict, match="a file or a folder"):
        put(run, second, b"2")

    assert files_on_disk(settings) == [run.pk]


def test_what_does_not_arrive_whole_leaves_nothing(run, settings):
    with pytest.raises(InvalidInput, match="has not arrived whole: 5 of 9 bytes") as error:
        put(run, "a.txt", b"12345", 9)
    assert error.value.status == 400

    pieces = iter([b"123"])

    def breaks_off(most):
        try:
            return next(pieces)
        except StopIteration:
            raise ConnectionResetError from None

    with pytest.raises(ConnectionResetError):
        store.store(run, "b.txt", breaks_off)
    assert files_on_disk(settings) == [] and not Artifact.objects.exists()


@pytest.mark.parametrize("said", [None, 11])
def test_a_file_has_a_limit_whether_it_says_its_size_or_not(run, settings, said):
    settings.ARTIFACT_MAX_BYTES = 10

    with pytest.raises(
        TooLarge, match=r"a.txt is too large: .* at most 10 bytes \(HEADROOM_ARTIFACT_MAX_BYTES\)"
    ) as error:
        put(run, "a.txt", b"x" * 11, said)

    assert (error.value.status, error.value.code) == (413, "too_large")
    assert files_on_disk(settings) == []
    put(run, "a.txt", b"x" * 10)


def test_the_files_of_a_project_have_a_limit_together(run, committed, settings):
    settings.ARTIFACT_PROJECT_BYTES = 100
    other = tracked_run(user=None, project=run.project, name="another")
    committed(put, run, "a", b"x" * 60)
    committed(put, other, "b", b"x" * 40)

    with pytest.raises(TooLarge, match=r"c has no room: .* at most 100 bytes .* and 100 bytes are taken"):
        put(other, "c", b"x")

    committed(put, run, "a", b"y" * 60)  # what it replaces counts no more
    elsewhere = tracked_run(user=None, project=create_project(slug="code", name="Code"), name="of others")
    put(elsewhere, "c", b"x" * 100)
    committed(partial(store.delete, user=None), run, "a")
    put(other, "c", b"x" * 60)


def test_what_is_being_received_counts_too(run, settings):
    settings.ARTIFACT_PROJECT_BYTES = 100
    store.receive(run.project, "waits", io.BytesIO(b"x" * 60).read)

    with pytest.raises(TooLarge, match="60 bytes are taken"):
        put(run, "a", b"x" * 41, 41)


def test_a_disk_without_room_takes_nothing(run, settings):
    settings.MIN_FREE_BYTES = 2**60

    with pytest.raises(InvalidInput, match="no room for these files") as error:
        put(run, "a.txt", b"a")

    assert error.value.status == 507


def test_files_are_deleted_one_by_one_or_by_folder(run, committed, settings):
    for path in ("a/1", "a/b/2", "ab", "c"):
        committed(put, run, path, b"x")

    assert committed(partial(store.delete, user=None), run, "a") == 2
    assert [one.path for one in run.artifacts.all()] == ["ab", "c"]
    assert len(files_on_disk(settings)) == 2
    event = Event.objects.get(verb="run.files_deleted")
    assert event.object_id == run.pk and event.detail == {"path": "a", "files": 2}
    for path in ("a", "", "never"):
        with pytest.raises(NotFound):
            store.delete(run, path, user=None)


def test_files_go_with_their_run(run, committed, settings):
    committed(put, run, "a", b"x")
    committed(put, run, "b/c", b"x")

    committed(run.delete)

    assert files_on_disk(settings) == []


def test_a_row_without_its_file_is_said(run, committed, settings):
    made = committed(put, run, "a", b"x")
    store.remove_file(run.pk, made.key)

    with pytest.raises(NotFound, match="not on the disk"):
        content(run, "a")


def test_only_its_own_project_takes_what_was_received(run):
    other = create_project(slug="code", name="Code")
    file = store.receive(run.project, "waits", io.BytesIO(b"abc").read)

    assert store.received(run.project, file.key) == file
    assert store.received(other, file.key) is None
    for key in (f"{run.project.pk}-../../x", f"{run.project.pk}-{'0' * 32}", "", "../" + file.key):
        assert store.received(run.project, key) is None


def test_the_clean_up_takes_what_belongs_to_no_run(run, committed, settings):
    folder = settings.HEADROOM_HOME / "artifacts"
    kept = put(run, "kept where it was received", b"x")
    settled = committed(put, run, "settled", b"x")
    old, new = (store.receive(run.project, "waits", io.BytesIO(b"x").read) for _ in range(2))
    gone = folder / "0123456789"
    gone.mkdir()
    (gone / "1-abc").write_bytes(b"x")
    long_ago = time.time() - store.LEFT_OVER_SECONDS - 1
    for path in (folder / ".incoming" / kept.key, old.file, folder / run.pk, gone):
        os.utime(path, (long_ago, long_ago))

    store.clean_up()

    assert not old.file.exists() and new.file.exists() and not gone.exists()
    assert content(run, "kept where it was received") == content(run, "settled") == b"x"
    assert (folder / run.pk / settled.key).exists()

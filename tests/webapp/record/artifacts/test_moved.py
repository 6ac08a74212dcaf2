"""Files of runs in the store of checkpoints: moved there by the worker, read and deleted there."""

import pytest

from tests.training.stores import everywhere, s3  # noqa: F401 - fixtures
from tests.webapp.record.artifacts.test_store import committed, content, files_on_disk, put, run  # noqa: F401
from training.checkpoint_store import Store, StoreAway, open_store
from webapp.base.errors import NotFound
from webapp.interfaces import files
from webapp.record.artifacts import store


@pytest.fixture
def far(run, everywhere, monkeypatch):  # noqa: F811
    """The run's place in a store that is set up."""
    for name, value in everywhere.items():
        monkeypatch.setenv(name, value)
    return open_store(run.pk)


def test_a_file_that_moved_is_read_and_downloaded_as_before(run, committed, far, settings):  # noqa: F811
    made = committed(put, run, "samples/step 10.txt", b"2 + 2 = 4")

    assert store.move_to_store() == 1

    assert files_on_disk(settings) == [] and store.move_to_store() == 0
    assert content(run, "samples/step 10.txt") == b"2 + 2 = 4"
    answer = files.download(store.find(run, "samples/step 10.txt"))
    assert (b"".join(answer.streaming_content), answer["Content-Length"]) == (b"2 + 2 = 4", "9")
    assert far.names() == []  # of checkpoints: it is none
    assert far.open("artifacts", made.key) is not None


def test_what_moved_goes_with_its_row(run, committed, far, settings):  # noqa: F811
    made = committed(put, run, "a", b"old")
    store.move_to_store()

    newer = committed(put, run, "a", b"newer")

    assert far.open("artifacts", made.key) is None and content(run, "a") == b"newer"
    store.move_to_store()
    committed(run.delete)
    assert far.open("artifacts", newer.key) is None


@pytest.mark.parametrize("everywhere", ["file"], indirect=True)
def test_a_file_that_was_deleted_on_the_way_is_not_left_in_the_store(
    run,  # noqa: F811
    committed,  # noqa: F811
    far,
    monkeypatch,
):
    made = committed(put, run, "a", b"x")
    keep = Store.keep

    def deleted_meanwhile(self, *what):
        keep(self, *what)
        committed(run.artifacts.all().delete)

    monkeypatch.setattr(Store, "keep", deleted_meanwhile)

    store.move_to_store()

    assert far.open("artifacts", made.key) is None


@pytest.mark.parametrize("everywhere", ["file"], indirect=True)
def test_while_the_store_is_away_files_stay_and_say_so(run, committed, far, settings, monkeypatch):  # noqa: F811
    committed(put, run, "moved", b"x")
    store.move_to_store()
    committed(put, run, "stays", b"y")

    def away(self, *what):
        raise StoreAway("the store does not answer")

    for name in ("keep", "open", "remove"):
        monkeypatch.setattr(Store, name, away)

    assert store.move_to_store() == 0 and content(run, "stays") == b"y"
    with pytest.raises(NotFound, match="cannot be read now: the store does not answer"):
        content(run, "moved")
    committed(run.delete)
    assert files_on_disk(settings) == []


def test_a_content_that_is_nowhere_says_where_it_was_looked_for(run, committed, far):  # noqa: F811
    made = committed(put, run, "a", b"x")
    store.remove_file(run.pk, made.key)

    with pytest.raises(NotFound, match="not on the disk of this server or in the checkpoint store"):
        content(run, "a")

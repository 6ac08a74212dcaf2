"""The tab of a run's files, their downloads, and the run by the id that its client has of it."""

import io

from tests.webapp.interfaces.pages.reading import text_of
from webapp.interfaces.pages.run import tabs
from webapp.interfaces.tracking.client_runs import ensure_group, make_client_run
from webapp.interfaces.tracking.models import ClientRun
from webapp.record.artifacts.store import store


def put(run, path, content):
    return store(run, path, io.BytesIO(content).read)


def test_files_are_listed_and_saved_but_never_shown(ada, make_run):
    run = make_run(3)
    made = put(run, "plots/<b>&.html", b"<script>alert(1)</script>")

    page = text_of(ada.get(f"/runs/{run.pk}?tab=files"))

    link = f"/runs/{run.pk}/files/plots/%3Cb%3E&.html"
    assert f'href="{link.replace("&", "&amp;")}" download' in page and "plots/&lt;b&gt;&amp;.html" in page
    assert "1 file of this run, 25 bytes" in page and made.sha256 in page
    found = ada.get(link)
    assert b"".join(found.streaming_content) == b"<script>alert(1)</script>"
    assert (
        found["Content-Type"] == "application/octet-stream" and found["X-Content-Type-Options"] == "nosniff"
    )
    assert found["Content-Disposition"].startswith("attachment")


def test_of_very_many_the_first_are_shown(ada, make_run, monkeypatch):
    monkeypatch.setattr(tabs, "MOST_FILES", 2)
    run = make_run(0)
    for name in "cab":
        put(run, name, b"x")

    page = text_of(ada.get(f"/runs/{run.pk}?tab=files"))

    assert "3 files of this run, 3 bytes; the first 2 by path" in page
    assert "/files/a" in page and "/files/b" in page and "/files/c" not in page


def test_a_run_without_files_says_how_they_come(ada, make_run):
    assert "run.log_artifact(path)" in ada.get(f"/runs/{make_run(0).pk}?tab=files").content.decode()


def test_files_that_are_not_there_or_of_others_are_not_found(ada, make_run, foreign_run):
    put(foreign_run, "a", b"x")

    assert ada.get(f"/runs/{make_run(0).pk}/files/a").status_code == 404
    assert ada.get(f"/runs/{foreign_run.pk}/files/a").status_code == 404


def test_the_id_of_the_client_leads_to_the_run(ada, user, project, foreign_run):
    made = make_client_run(
        ensure_group(project, "grpo"), ClientRun(client="mlflow", name="logged", start_ms=0), user=user
    )
    of_others = make_client_run(
        ensure_group(foreign_run.project, "grpo"),
        ClientRun(client="mlflow", name="theirs", start_ms=0),
        user=None,
    )

    answer = ada.get(f"/runs/{made.key}")

    assert (answer.status_code, answer.url) == (302, f"/runs/{made.run_id}")
    for key in (of_others.key, "0" * 32):
        assert ada.get(f"/runs/{key}").status_code == 404

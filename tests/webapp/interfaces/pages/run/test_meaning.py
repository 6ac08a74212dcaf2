"""What the page of a run that trains elsewhere asks about its metrics, and how it shows a run without device-hours."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.launching import tracked_run
from tests.members import member
from tests.webapp.interfaces.pages.reading import page_of
from tests.webapp.interfaces.pages.test_run import figure_in
from training.records import Record
from webapp.record.runs import ingest
from webapp.record.runs.models import Run, Summary
from webapp.science.curves.services import refit

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


def reported(i, metric, *, tokens=False):
    return Record.model_validate(
        {
            "attempt": 1,
            "seq": i,
            "step": i,
            "time": (START + timedelta(hours=i)).isoformat(),
            "compute": {"device_hours": None, "flops": None, "tokens": 1000.0 * i if tokens else None},
            "metrics": {metric: 0.8 - 0.6 * 0.6**i, "train/loss": 1.0},
        }
    )


@pytest.fixture
def elsewhere(user, project):
    """A tracked run; the function reports eight records of a metric, tokens known or not."""
    run = tracked_run(user=user, project=project, name="elsewhere", task="math")

    def report(metric, *, tokens=False):
        ingest.store_records(run, [reported(i, metric, tokens=tokens) for i in range(8)])
        return run

    return report


def test_a_metric_of_its_own_becomes_the_curve(ada, elsewhere):
    run = elsewhere("val/accuracy")
    before = page_of(ada, run)
    assert "No evaluation yet" in before
    assert "say so under Metrics" in before
    assert before.index('<option value="val/accuracy">') < before.index('<option value="train/loss">')

    answer = ada.post(
        f"/runs/{run.pk}/meaning",
        {"pass_rate": "val/accuracy", "n_prompts": "200", "devices": "16"},
        follow=True,
    )

    page = answer.content.decode()
    assert "Noted what the metrics mean of elsewhere" in page
    assert figure_in(page)["points"]["x"] == pytest.approx([16.0 * i for i in range(1, 8)])
    assert 'value="val/accuracy"' in page
    assert 'value="16"' in page
    assert figure_in(page)["progress"]["text"] == "112 device-hours"
    refit(run.pk)
    assert Summary.objects.get(run=run).used_hours == 112
    ingest.store_records(run, [reported(8, "val/accuracy")])
    assert Summary.objects.get(run=run).used_hours == 112  # until the next refit


@pytest.mark.parametrize("tokens", [True, False])
def test_without_device_hours_the_page_opens_by_what_is_known(ada, elsewhere, tokens):
    run = elsewhere("eval/pass_rate", tokens=tokens)

    answer = ada.get(f"/runs/{run.pk}?tab=attempts")

    assert answer["Location"] == f"/runs/{run.pk}?x={'tokens' if tokens else 'step'}&tab=attempts"
    assert len(figure_in(page_of(ada, run, "?x=step"))["points"]["x"]) == 7
    empty = figure_in(page_of(ada, run, "?x=device_hours"))["empty"]
    assert empty["title"] == "Its device-hours are not known"
    assert "on how many devices" in empty["text"]
    assert figure_in(page_of(ada, run, "?x=step"))["progress"]["text"] == "device-hours not known"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"devices": "many"}, "Devices: "),
        ({"n_prompts": "1.5"}, "a whole number"),
        ({"pass_rate": "no/such"}, "This run has no metric no/such."),
    ],
)
def test_what_cannot_be_meant_is_said(ada, elsewhere, sent, words):
    run = elsewhere("val/accuracy")

    page = ada.post(f"/runs/{run.pk}/meaning", sent, follow=True).content.decode()

    assert words in page
    assert Run.objects.get(pk=run.pk).meaning == {}


def test_a_viewer_is_not_asked(client, elsewhere, project):
    client.force_login(member("guest", project=project, role="viewer"))
    run = elsewhere("val/accuracy")

    assert "meaning-dialog" not in page_of(client, run)
    assert client.post(f"/runs/{run.pk}/meaning", {"devices": "2"}).status_code == 403


def test_a_launched_run_is_not_asked(ada, make_run):
    assert "meaning-dialog" not in page_of(ada, make_run(3))

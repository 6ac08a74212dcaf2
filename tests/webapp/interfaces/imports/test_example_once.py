"""The example project is imported once, by one worker, whatever ends in between; and a corpus that cannot be used."""

import logging
import threading

import pytest
from django.db import connection

from benchmarks.bench_example import make_corpus
from tests.members import member
from webapp.base.errors import NotFound
from webapp.identity.accounts.models import Project
from webapp.interfaces.imports import example
from webapp.interfaces.imports.models import Example
from webapp.record.runs.models import Point, Run
from webapp.science.curves.models import Fit, ForecastOutcome
from webapp.science.studies.models import Study

RUNS, ARMS, STEPS = 6, 3, 160


@pytest.fixture(autouse=True)
def _its_corpus(settings, corpus_folder):
    settings.EXAMPLE_CORPUS = str(corpus_folder)


@pytest.mark.django_db
def test_it_is_imported_once():
    assert example.is_wanted()
    assert example.bring_example()

    assert not example.is_wanted()
    assert not example.bring_example()
    assert Project.objects.filter(is_example=True).count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_import_it_once():
    answers = []

    def work():
        answers.append(example.bring_example())
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)

    assert sorted(answers) == [False, True]
    assert Project.objects.filter(is_example=True).count() == 1
    assert Run.objects.filter(project__is_example=True).count() == RUNS


@pytest.mark.django_db
def test_a_worker_that_was_killed_before_the_fits_is_followed_by_another():
    example.bring_example()
    project = Project.objects.get(is_example=True)
    Fit.objects.filter(run__project=project).delete()
    Example.objects.update(done_at=None)

    assert example.is_wanted() and example.bring_example()

    assert Project.objects.get(is_example=True) == project
    assert Fit.objects.filter(run__project=project).count() == 2 * RUNS


@pytest.mark.django_db
def test_fits_are_made_for_some_seconds_and_the_rest_by_the_next_call(monkeypatch):
    monkeypatch.setattr(example, "AT_ONCE", 4)

    for number in range(
        RUNS
    ):  # first what earlier forecasts were worth, for the intervals of all fits follow it
        assert ForecastOutcome.objects.count() == number and not Fit.objects.exists()
        assert not example.bring_example(0.0)
    assert example.is_wanted() and Fit.objects.count() == 2 * 4
    assert not example.bring_example(0.0)
    assert Fit.objects.count() == 2 * RUNS
    assert example.bring_example(0.0) and not example.is_wanted()


@pytest.mark.django_db
def test_a_newer_corpus_takes_the_place_of_the_old_one(settings, tmp_path):
    example.bring_example()
    make_corpus(tmp_path, 3, arms=ARMS, steps=STEPS)
    settings.EXAMPLE_CORPUS = str(tmp_path)

    assert example.bring_example()

    project = Project.objects.get(is_example=True)
    assert Run.objects.filter(project=project).count() == 3
    assert Point.objects.exclude(series__run__project=project).count() == 0


@pytest.mark.django_db
def test_a_study_appears_with_the_last_of_its_runs(settings, tmp_path):
    make_corpus(tmp_path, 5, arms=ARMS, steps=STEPS)  # of six
    settings.EXAMPLE_CORPUS = str(tmp_path)

    assert example.bring_example()

    project = Project.objects.get(is_example=True)
    assert Run.objects.filter(project=project).count() == 5
    assert not Study.objects.filter(project=project).exists()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["runs.parquet", "points.parquet", "study.yaml"])
def test_a_broken_corpus_is_one_line_in_the_log_and_nothing_more(settings, tmp_path, caplog, name):
    make_corpus(tmp_path, 3, arms=ARMS, steps=STEPS)
    (tmp_path / name).write_bytes(b"PAR1: broken")
    settings.EXAMPLE_CORPUS = str(tmp_path)
    caplog.set_level(logging.INFO, "webapp.interfaces.imports.example")

    assert not example.bring_example()

    (line,) = caplog.messages
    assert line.startswith("no example project: ") and "\n" not in line
    assert not Project.objects.filter(is_example=True).exists()
    assert not example.is_wanted()
    make_corpus(tmp_path, 3, arms=ARMS, steps=STEPS + 40)  # mended by an update
    assert example.is_wanted() and example.bring_example()


@pytest.mark.django_db
@pytest.mark.parametrize("where", ["none", "/not/there"])
def test_without_a_corpus_nothing_is_wanted(settings, where):
    settings.EXAMPLE_CORPUS = where

    assert not example.is_wanted()
    assert not example.bring_example()


@pytest.mark.django_db
def test_another_project_of_its_name_stays_what_it_is():
    mine = Project.objects.create(slug="example", name="Mine", organisation=example.default_organisation())

    example.bring_example()

    assert Project.objects.get(is_example=True).slug == "example-2"
    assert Project.objects.get(slug="example") == mine


@pytest.mark.django_db
def test_what_is_not_there_cannot_be_removed():
    with pytest.raises(NotFound, match="no example project"):
        example.remove_example(actor=member("ada"))

"""The example project: what of a corpus is stored, who sees it, and its removal for good."""

from dataclasses import replace

import numpy as np
import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.cache import caches
from django.test import Client, override_settings
from django.urls import reverse

from benchmarks.bench_example import CHANGING, CONSTANT, DIAGNOSTICS
from tests.members import member
from tests.shared_rows import kept
from training.study.corpus import read_corpus
from training.study.file import load_study
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Project, Role, Scope
from webapp.identity.accounts.permissions import Permission, may, role_in
from webapp.identity.accounts.services import create_token
from webapp.identity.audit.models import Event
from webapp.interfaces.imports import corpus_rows, example
from webapp.record.recipes.models import Recipe
from webapp.record.runs.models import Point, Run, State
from webapp.reporting.reports.models import Report
from webapp.science.curves.fitting import curve_of
from webapp.science.curves.models import Fit
from webapp.science.curves.ranking.leaderboard import leaderboard
from webapp.science.studies.models import Arm, Study, StudyKind
from webapp.science.studies.results import results
from webapp.science.studies.selectors import groups_of, version_of

RUNS, ARMS, EVALUATIONS = 6, 3, 41


@pytest.fixture(autouse=True)
def _its_corpus(settings, corpus_folder):
    settings.EXAMPLE_CORPUS = str(corpus_folder)


@pytest.fixture(scope="module")
def stored(django_db_setup, django_db_blocker, corpus_folder):
    with kept(django_db_blocker), override_settings(EXAMPLE_CORPUS=str(corpus_folder)):
        assert example.bring_example()
        yield Project.objects.get(is_example=True)


@pytest.fixture
def project(db, stored):
    """The example project, made once for the tests that only look at it."""
    caches["default"].clear()
    return Project.objects.get(pk=stored.pk)


def test_a_run_from_before_a_field_came_is_of_the_same_recipe(corpus_folder):
    run = next(iter(read_corpus(corpus_folder).runs.values()))
    earlier = {name: value for name, value in run.config.items() if name != "samples"}
    other = run.config | {"seed": 3, "samples": run.config["samples"] | {"groups": 7}}

    assert corpus_rows._key(replace(run, config=earlier | {"seed": 2})) == corpus_rows._key(run)
    assert corpus_rows._key(replace(run, config=other)) != corpus_rows._key(run)
    assert corpus_rows._key(replace(run, config={"of": "another schema"}))


def signed_in(user):
    client = Client()
    client.force_login(user)
    return client


def nobody(name="bob"):
    """An account that is a member of nothing."""
    return get_user_model().objects.create_user(name)


# --- what is stored -------------------------------------------------------------------------------------------------


def test_every_run_is_there_with_its_recipe_and_its_points(project, corpus_folder):
    found = read_corpus(corpus_folder)
    runs = Run.objects.filter(project=project)

    assert set(runs.values_list("pk", flat=True)) == set(found.runs)
    assert {run.state for run in runs} == {State.SUCCEEDED}
    assert sorted(runs.values_list("seed", flat=True)) == [0, 0, 0, 1, 1, 1]
    assert Recipe.objects.filter(project=project).count() == ARMS
    assert all(run.config == found.runs[run.pk].config and run.created_at == run.started_at for run in runs)
    each = EVALUATIONS * len(CHANGING) + 2 * len(CONSTANT) + corpus_rows.MOST_DIAGNOSTICS * len(DIAGNOSTICS)
    assert Point.objects.filter(series__run__project=project).count() == RUNS * each


def test_a_curve_is_the_one_of_the_corpus(project, corpus_folder):
    run = Run.objects.filter(project=project).first()
    points = read_corpus(corpus_folder).points(run.pk).of("eval/pass_rate")

    curve = curve_of(run)

    assert curve.x.tolist() == points.device_hours[1:].tolist()
    assert np.float32(curve.y).tolist() == points.value[1:].tolist()
    assert np.float32(curve.se).tolist() == points.stderr[1:].tolist()
    assert curve.start == (float(str(points.value[0])),)


def test_lists_and_rankings_have_content(project):
    assert Fit.objects.filter(run__project=project).count() == 2 * RUNS  # half way, and at the end
    ranked = leaderboard(project, published=False)
    summaries = [run.summary for run in Run.objects.filter(project=project).select_related("summary")]

    assert len(ranked) == 1 and len(ranked[0]["rows"]) == ARMS
    assert all(one.used_hours and one.pass_rate and one.fit_status and one.spark for one in summaries)


def test_studies_have_their_arms_and_a_verdict(project):
    (study,) = Study.objects.filter(project=project)
    arms = list(Arm.objects.filter(study=study))

    assert study.name == "study-0: Does the learning rate matter, made for the 0th time?"
    assert (study.kind, study.seeds) == (StudyKind.AXIS, [0, 1])
    assert [(arm.label, arm.axis, arm.number) for arm in arms] == [
        ("base", "optimizer.lr", 8e-5),
        ("lr-1", "optimizer.lr", 1.5e-5),
        ("lr-2", "optimizer.lr", 2.5e-5),
    ]
    payload = results(study, groups_of(study))
    assert [len(row["runs"]) for row in payload["rows"]] == [2, 2, 2]
    assert all(row["ceiling"] for row in payload["rows"])
    assert len(payload["law"]["variants"]) == 3


def test_a_study_seen_before_its_fits_has_its_hours_and_is_another_version_then(db, corpus_folder):
    project = example._stored(corpus_folder, "another")
    study = Study.objects.filter(project=project).first()
    early, version = results(study, groups_of(study)), version_of(study)

    example._fit(project)

    assert early["spent"]["used"] > 0 and "not known" not in early["spent"]["text"]
    assert version_of(study) != version


def test_models_of_several_sizes_stand_on_an_axis():
    written = load_study(settings.BASE_DIR / "corpus/miniature/study.yaml")
    (size,) = [one for one in written.says.studies if one.name == "size"]

    axis = corpus_rows._axis(size)

    models = {"0.1M": "tiny-arithmetic-0.1m", "0.3M": "tiny-arithmetic", "3M": "tiny-arithmetic-3m"}
    arms = [corpus_rows._change(size, name, axis, {"model": model}) for name, model in models.items()]
    assert [(arm["axis"], arm["axis_title"], arm["number"]) for arm in arms] == [
        ("model", "Model", number) for number in (1e5, 3e5, 3e6)
    ]


def test_a_report_says_what_the_runs_say(project):
    report = Report.objects.get(project=project)
    (published,) = report.publications.all()
    shown = signed_in(nobody()).get(reverse("report", args=[report.pk]), {"project": project.slug})

    assert (report.created_by, published.authors) == (None, ["Headroom"])
    assert [part["kind"] for part in published.frozen] == ["chart"]
    assert len(published.frozen[0]["drawing"]["legend"]) >= ARMS
    assert "| base (baseline) | 2 |" in published.text and published.text == report.text
    assert shown.status_code == 200 and b"Does the learning rate matter" in shown.content


# --- who sees it ----------------------------------------------------------------------------------------------------


def test_everybody_is_a_viewer_and_nobody_more(project):
    owner = member("ada")
    owner.is_superuser = True
    project.organisation.owners.add(owner)
    gone = get_user_model().objects.create_user("gone", is_active=False)

    for user in (owner, nobody()):
        assert role_in(user, project) == Role.VIEWER
        assert [permission for permission in Permission if may(user, project, permission)] == [
            Permission.VIEW
        ]
    assert role_in(gone, project) is None


def test_who_is_a_member_of_nothing_sees_its_pages_with_the_banner(project):
    client = signed_in(nobody())
    run, study = Run.objects.filter(project=project).first(), Study.objects.get(project=project)

    addresses = [
        reverse(name) for name in ("overview", "runs", "leaderboard", "studies", "compare", "recipes")
    ]
    for address in [*addresses, f"/runs/{run.pk}", f"/studies/{study.pk}"]:
        answer = client.get(address)
        assert answer.status_code == 200, address
        assert "Example project: real runs" in answer.content.decode(), address
        assert "Remove it" not in answer.content.decode(), address
    assert client.get(reverse("launch")).status_code == 403
    assert client.post(reverse("run-stop", args=[run.pk])).status_code == 403
    assert client.post(reverse("study-rename", args=[study.pk]), {"name": "x"}).status_code == 403
    assert client.get(reverse("new-prediction"), {"run": run.pk}).status_code == 403


def test_pages_of_other_projects_have_no_banner(project):
    client = signed_in(member("ada"))
    run = Run.objects.filter(project=project).first()

    assert "Example project" not in client.get(reverse("runs")).content.decode().split("<main")[1]
    assert "Example project: real runs" in client.get(f"/runs/{run.pk}").content.decode()


def test_its_address_opens_it(project):
    client = signed_in(member("ada"))

    answer = client.get("/example", follow=True)

    assert answer.redirect_chain == [("/studies", 302)]
    assert "Example project: real runs" in answer.content.decode()
    assert Client().get("/example").status_code == 302  # to the sign-in


def test_a_token_for_it_reads(project):
    user = nobody()
    run = Run.objects.filter(project=project).first()
    token = create_token(user=user, project=project, scope=Scope.READ)
    headers = {"Authorization": f"Bearer {token}"}

    assert Client().get(f"/api/v1/runs/{run.pk}", headers=headers).status_code == 200
    assert Client().post(f"/api/v1/runs/{run.pk}/cancel", headers=headers).status_code == 403
    with pytest.raises(InvalidInput, match="yours is viewer"):
        create_token(user=user, project=project, scope=Scope.WRITE)


# --- removal --------------------------------------------------------------------------------------------------------


def test_who_may_only_look_at_an_empty_project_is_led_to_it(project):
    vic = member("vic", role=Role.VIEWER)

    page = signed_in(vic).get("/").content.decode()

    assert "Nothing runs here yet" in page and f'href="{reverse("example")}"' in page


def test_an_owner_removes_it_for_good(project):
    owner = member("ada")
    project.organisation.owners.add(owner)
    create_token(user=nobody(), project=project, scope=Scope.READ)
    client = signed_in(owner)
    client.get("/example")
    page = client.get(reverse("leaderboard")).content.decode()
    asked = page.split('<dialog id="remove-example"')[1].split("</dialog>")[0]
    assert (
        "for everyone, and it is not made again" in asked
        and 'command="show-modal" commandfor="remove-example"' in page
    )
    assert (
        page.count(reverse("remove-example")) == asked.count(reverse("remove-example")) == 1
    )  # after the question

    answer = client.post(reverse("remove-example"), follow=True)

    assert "The example project is removed." in answer.content.decode()
    assert not Project.objects.filter(is_example=True).exists()
    assert not Point.objects.filter(series__run__in=Run.objects.filter(project_id=project.pk)).exists()
    assert not example.is_wanted() and not example.bring_example()
    assert client.get("/example").status_code == 404
    assert Event.objects.get(verb="example.removed").actor_name == "ada"


def test_nobody_else_removes_it(project):
    for user in (member("ada"), nobody()):
        assert signed_in(user).post(reverse("remove-example")).status_code in (403, 404)
    assert Project.objects.filter(is_example=True).exists()

"""The pages of studies: list, form with preview, results, and what people do with them."""

import csv
import io
import json
import re

import pytest

from tests.webapp.science.studies.conftest import finished, make_study, report  # noqa: F401 (fixtures)
from webapp.record.runs.models import Run
from webapp.science.curves.fitting import curve_of
from webapp.science.studies import services
from webapp.science.studies.models import Study

HTMX = {"HX-Request": "true"}


@pytest.fixture
def study_form(model_folder):
    return {
        "kind": "leave_one_out", "name": "What matters", "recipe": "tiny-scalerl", "revision": "1",
        "task": "arithmetic", "model": "tiny-arithmetic", "seeds": "0, 1", "budget_hours": "16",
        "change": ["loss=dapo", "head=bfloat16"], "settings": "optimizer.lr = 1e-4", "idempotency_key": "key-1",
    }  # fmt: skip


def error_of(response, field):
    found = re.search(rf'id="id_{field}_error"[^>]*>([^<]*)<', response.content.decode())
    return found[1] if found else None


def test_without_a_study_the_page_teaches(ada):
    page = ada.get("/studies").content.decode()

    assert "No study yet" in page
    assert "/studies/new?kind=axis" in page


def test_the_list_says_how_far_and_what(ada, finished, django_assert_max_num_queries):  # noqa: F811
    with django_assert_max_num_queries(17):
        page = ada.get("/studies").content.decode()

    assert "6 of 6 done" in page
    assert "1 is worse" in page


def test_the_form_offers_what_the_paper_took_back(ada, model_folder):
    page = ada.get("/studies/new").content.decode()

    assert '<option value="tiny-scalerl" selected>' in page
    assert len(re.findall(r'name="change"[^>]* checked', page)) == 8
    assert "loss.type dapo" in page
    assert 'value="0.075"' in page


def test_another_base_brings_its_form_with_what_applies(ada, model_folder):
    query = {"recipe": "tiny-deepseek-grpo", "revision": "1", "kind": "leave_one_out", "name": "mine"}

    fragment = ada.get("/studies/new", query, headers=HTMX | {"HX-Trigger-Name": "recipe"}).content.decode()

    assert "<html" not in fragment
    assert 'value="mine"' in fragment
    assert "as in the base" in fragment  # it averages over samples already


def test_the_preview_shows_each_run_with_its_difference_and_the_cost(ada, study_form):
    page = ada.post("/studies/new/preview", study_form).content.decode()

    assert "8 runs" in page
    assert "128 device-hours" in page
    assert "loss.type" in page
    assert "Nothing is known of how fast runs go here" in page
    assert not Study.objects.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": "optimizer.lr = -1"}, "optimizer.lr"),
        ({"seeds": "a"}, "no whole number"),
        ({"budget_hours": "x"}, "number"),
    ],
)
def test_the_preview_says_what_is_wrong(ada, study_form, change, words):
    page = ada.post("/studies/new/preview", study_form | change).content.decode()

    assert 'role="alert"' in page
    assert words in page


def test_as_many_settings_as_the_form_takes_are_previewed(ada, study_form):
    """No address could hold them."""
    settings = "\n".join(f"optimizer.lr = 0.{digits:04}" for digits in range(1, 170))

    page = ada.post("/studies/new/preview", study_form | {"settings": settings})

    assert 3000 < len(settings) < 4000 and page.status_code == 200
    assert "172 variants with 2 seeds each: 344 runs" in page.content.decode()


def test_launching_leads_to_the_study_once(ada, study_form):
    first, again = ada.post("/studies/new", study_form), ada.post("/studies/new", study_form)

    study = Study.objects.get()
    assert first.status_code == 302
    assert first.url == again.url == f"/studies/{study.pk}"
    assert Run.objects.count() == 8


def test_a_form_sent_again_with_other_values_gets_a_new_key(ada, study_form):
    ada.post("/studies/new", study_form)

    again = ada.post("/studies/new", study_form | {"seeds": "5"})

    assert again.status_code == 422
    key = re.search(r'name="idempotency_key" value="([^"]+)"', again.content.decode())[1]
    assert key != "key-1"
    assert ada.post("/studies/new", study_form | {"seeds": "5", "idempotency_key": key}).status_code == 302


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "", "required"),
        ("seeds", "1, x", "no whole number"),
        ("seeds", "1, 1", "once"),
        ("budget_hours", "0", "above 0"),
        ("budget_hours", "nan", "number"),
        ("model", "nowhere", "no model named"),
        ("task", "chess", "not one of the available choices"),
        ("revision", "99", "not one of the available choices"),
        ("settings", "optimizer.speed = 3", "no such field"),
        ("settings", "hello", "write setting=value"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(ada, study_form, field, value, words):
    response = ada.post("/studies/new", study_form | {field: value})

    assert response.status_code == 422
    assert words in error_of(response, field)
    assert not Study.objects.exists()
    assert not Run.objects.exists()


def test_an_axis_is_made_of_its_values(ada, study_form):
    form = study_form | {"kind": "axis", "axis": "batch", "values": "64, 512", "path": ""}

    assert ada.post("/studies/new", form | {"values": "60"}).status_code == 422
    assert "multiple of 16" in error_of(ada.post("/studies/new", form | {"values": "60"}), "values")
    assert "path" in error_of(ada.post("/studies/new", form | {"axis": "setting"}), "path")
    assert ada.post("/studies/new", form).status_code == 302
    assert [arm.value for arm in Study.objects.get().arms.all()] == ["256", "64", "512"]


def test_the_page_shows_the_matrix_and_the_sentences(ada, finished, django_assert_max_num_queries):  # noqa: F811
    with django_assert_max_num_queries(20):
        page = ada.get(f"/studies/{finished.pk}").content.decode()

    assert "Of 2 changes, 1 is worse, 1 ties with the base" in page
    assert "The base is better than DAPO loss at 8.00 device-hours, by 0.0" in page
    assert page.count('class="seed-run"') == 6
    shown = re.findall(r"<span>(0\.\d+) <span[^>]*>±\s+(0\.\d+)</span>", page)
    curves = [curve_of(place.run) for place in finished.members.all()]
    assert sorted(shown) == sorted((f"{curve.y[-1]:.2f}", "0.01") for curve in curves)
    figures = json.loads(re.search(r'id="figures" type="application/json">(.*?)</script>', page, re.S)[1])
    assert [series["label"] for series in figures["overlay"]] == ["Base", "DAPO loss", "no FP32 head"]


@pytest.fixture
def along(make_study, report):  # noqa: F811
    """The page of a study of batches, the base's 256 among them, whose runs all reported."""

    def make(*changes):
        study = make_study(kind="axis", changes=changes, seeds=(0,))
        for place, a in zip(
            study.members.select_related("run").order_by("id"), (0.6, 0.55, 0.65), strict=False
        ):
            report(place.run, a=a)
        return f"/studies/{study.pk}"

    return make


def test_an_unseen_value_of_the_axis_is_forecast_on_the_page(ada, along):
    url = along("batch=128", "batch=512")

    page = ada.get(url, {"axis_value": "1,024"}).content.decode()

    assert "One law over 3 runs of 3 values" in page
    assert 'name="axis_value" value="1,024"' in page
    assert "Batch 1,024: forecast ceiling 0." in page
    figures = json.loads(re.search(r'id="figures" type="application/json">(.*?)</script>', page, re.S)[1])
    assert len(figures["law"]["curve"]) == 25
    kept = ada.get(f"{url}/state", {"axis_value": "1,024"}).json()["html"]["axis-said"]
    assert "Batch 1,024: forecast ceiling 0." in kept


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("many", "&#x27;many&#x27; is no number above 0."),
        ("1e9", "Runs from 128 to 512 say nothing of 1e+09."),
    ],
)
def test_a_value_that_cannot_be_forecast_is_told_so(ada, along, asked, words):
    page = ada.get(along("batch=128", "batch=512"), {"axis_value": asked}).content.decode()

    assert words in page


def test_two_values_have_no_law_and_the_page_says_so(ada, along):
    page = ada.get(along("batch=512"), {"axis_value": "1024"}).content.decode()

    said = "2 axis values fit any law: at least 3 different ones are needed."
    assert f'<p class="small muted">{said}</p>' in page
    assert 'role="alert"' not in page


def test_a_study_of_several_axes_has_no_field_for_a_value(ada, finished):  # noqa: F811
    page = ada.get(f"/studies/{finished.pk}", {"axis_value": "7"}).content.decode()

    assert 'name="axis_value"' not in page


def test_a_study_without_a_point_is_a_page_too(ada, make_study):  # noqa: F811
    page = ada.get(f"/studies/{make_study().pk}").content.decode()

    assert "Nothing can be told apart yet" in page
    assert "0 of 6 runs done, 6 waiting" in page


def test_only_what_changed_is_sent(ada, make_study, report, django_assert_max_num_queries):  # noqa: F811
    study = make_study()
    first = ada.get(f"/studies/{study.pk}/state").json()

    with django_assert_max_num_queries(6):
        assert ada.get(f"/studies/{study.pk}/state", {"since": first["version"]}).status_code == 204
    report(study.members.first().run, 8)
    second = ada.get(f"/studies/{study.pk}/state", {"since": first["version"]}).json()

    assert second["version"] != first["version"]
    assert second["live"]
    assert "1 running" in second["html"]["progress"]
    assert set(second["html"]) == {"progress", "results", "legend", "slopes-table", "axis-said"}


def test_the_csv_is_that_of_the_page(ada, finished):  # noqa: F811
    response = ada.get(f"/studies/{finished.pk}/results.csv")

    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert len(rows) == 6
    assert rows[0]["verdict"] == "base"


def test_runs_come_and_go(ada, make_study, make_run):  # noqa: F811
    study, other = make_study(), make_run(0, recipe="tiny-minimax", name="other")
    url = f"/studies/{study.pk}"

    assert "under MiniMax" in ada.post(f"{url}/runs", {"run": other.pk}, follow=True).content.decode()
    assert "already" in ada.post(f"{url}/runs", {"run": other.pk}, follow=True).content.decode()
    assert "no run nothing" in ada.post(f"{url}/runs", {"run": "nothing"}, follow=True).content.decode()
    gone = ada.post(f"{url}/runs/{other.pk}/remove", follow=True).content.decode()

    assert "taken out" in gone
    assert study.members.count() == 6


def test_further_seeds_and_stopping_all(ada, make_study):  # noqa: F811
    study = make_study(seeds=(0,))
    url = f"/studies/{study.pk}"

    assert "Launched 3 further runs" in ada.post(f"{url}/seeds", {"seeds": "1"}, follow=True).content.decode()
    assert "launched before" in ada.post(f"{url}/seeds", {"seeds": "1"}, follow=True).content.decode()
    assert "Nothing was launched" in ada.post(f"{url}/seeds", {"seeds": "x"}, follow=True).content.decode()
    assert "Stopping 6 runs" in ada.post(f"{url}/stop", follow=True).content.decode()
    assert set(Run.objects.values_list("state", flat=True)) == {"cancelled"}
    assert ada.get(f"{url}/stop").status_code == 405


def test_studies_of_others_do_not_exist(ada, make_study):  # noqa: F811
    from webapp.identity.accounts.services import create_project

    study = make_study()
    Study.objects.filter(pk=study.pk).update(project=create_project(slug="secret", name="Secret"))

    for path in ("", "/state", "/results.csv"):
        assert ada.get(f"/studies/{study.pk}{path}").status_code == 404
    assert ada.post(f"/studies/{study.pk}/stop").status_code == 404


@pytest.mark.parametrize("metric", ["nonsense", "eval/nothing/pass_rate", "a\0b"])
def test_a_curve_that_nobody_reports_falls_back(ada, finished, metric):  # noqa: F811
    assert ada.get(f"/studies/{finished.pk}", {"metric": metric}).status_code == 200
    assert ada.get(f"/studies/{finished.pk}/results.csv", {"metric": metric}).status_code == 200


def test_without_recipes_it_says_how_to_get_some(ada, project):
    project.recipes.all().delete()

    assert "No recipe to study" in ada.get("/studies/new").content.decode()


def test_what_was_computed_for_a_version_is_not_computed_again(ada, finished, django_assert_max_num_queries):  # noqa: F811
    ada.get(f"/studies/{finished.pk}")

    with django_assert_max_num_queries(7):
        again = ada.get(f"/studies/{finished.pk}/state").json()

    assert "1 is worse" in again["html"]["results"]
    other = finished.members.first().run
    ada.post(f"/studies/{finished.pk}/runs/{other.pk}/remove")
    assert "5 of 5 runs done" in ada.get(f"/studies/{finished.pk}/state").json()["html"]["progress"]
    assert f"/runs/{other.pk}" not in ada.get(f"/studies/{finished.pk}/state").json()["html"]["results"]


def test_a_study_is_renamed_from_its_page(ada, finished):  # noqa: F811
    page = ada.get(f"/studies/{finished.pk}").content.decode()
    assert f'action="/studies/{finished.pk}/rename"' in page

    ada.post(f"/studies/{finished.pk}/rename", {"name": "Which loss", "was": finished.name})
    late = ada.post(f"/studies/{finished.pk}/rename", {"name": "Too late", "was": finished.name}, follow=True)

    assert Study.objects.get(pk=finished.pk).name == "Which loss"
    assert "Somebody renamed this study to “Which loss” meanwhile." in late.content.decode()


def test_an_archived_study_leaves_the_list_and_comes_back(ada, finished):  # noqa: F811
    page = ada.post(f"/studies/{finished.pk}/archive", follow=True).content.decode()
    assert "Every study is archived" in page
    assert f"/studies/{finished.pk}" not in page
    assert f"/studies/{finished.pk}" in ada.get("/studies?archived=1").content.decode()
    shown = ada.get(f"/studies/{finished.pk}").content.decode()
    assert "This study is archived" in shown
    assert "seeds-title" not in shown

    ada.post(f"/studies/{finished.pk}/archive", {"do": "unarchive"})

    assert f"/studies/{finished.pk}" in ada.get("/studies").content.decode()
    assert "No archived study" in ada.get("/studies?archived=1").content.decode()


@pytest.mark.parametrize(
    ("kind", "awaited"),
    [("axis", "Give the values of the axis"), ("leave_one_out", "Give at least one choice to take back")],
)
def test_a_form_that_nobody_has_filled_in_is_not_told_off(ada, study_form, kind, awaited):
    form = study_form | {"kind": kind, "axis": "batch", "values": "", "settings": "", "change": []}

    page = ada.post("/studies/new/preview", form).content.decode()

    assert awaited in page
    assert 'role="alert"' not in page


def test_a_study_of_which_no_run_was_done_has_not_succeeded(ada, user, make_study):  # noqa: F811
    services.stop_all(make_study(changes=("loss=dapo",), seeds=(0,)), user=user)

    page = ada.get("/studies").content.decode()

    assert 'data-state="cancelled">ended early<' in page and 'data-state="succeeded"' not in page

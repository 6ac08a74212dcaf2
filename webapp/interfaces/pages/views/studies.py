"""Studies: the list, and one study with its results as they come."""

from typing import Any, cast

from django.contrib import messages
from django.core.cache import cache
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string

from webapp.base.errors import InvalidInput
from webapp.base.formats import csv_file, whole_in
from webapp.interfaces.pages.access import current_project, get_in_projects, signed_in
from webapp.interfaces.pages.answers import telling
from webapp.interfaces.pages.forms import decision_panel
from webapp.interfaces.pages.study_forms import numbers_in
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import is_pass_rate
from webapp.record.runs.states import ENDED
from webapp.science.curves.ranking.variation import seeds_of_tasks
from webapp.science.curves.run.figure import curve_label
from webapp.science.curves.words import DEFAULT_METRIC
from webapp.science.studies import selectors, services
from webapp.science.studies.law import at_value, number_of
from webapp.science.studies.models import Study
from webapp.science.studies.results import CSV_COLUMNS, csv_rows, progress_sentence, results, stored_headline

PAGE_SIZE = 20
OFFERED = 200  # newest runs in the list of runs to add
CACHE_SECONDS = 300
ENDED_EARLY = "ended early"
MAX_VALUE = 40  # characters of a value of the axis
COMPARED = 100  # most runs that a link to the comparison names


def studies(request: HttpRequest) -> HttpResponse:
    """All studies, newest first, each with how far it is and what it says; with `archived=1` the hidden ones."""
    project, archived = current_project(request), request.GET.get("archived") == "1"
    listed = selectors.studies_of(project, archived=archived)
    page = Paginator(listed, PAGE_SIZE).get_page(request.GET.get("page"))
    found = list(page.object_list)
    arms = selectors.stored_courses_of(found)
    seeds = seeds_of_tasks(project) if found else {}
    rows = [
        {
            "study": one,
            "progress": (progress := selectors.progress_of(one)),
            "share": progress.succeeded / progress.total if progress.total else None,
            "state": _state(progress),
            "variants": max(0, len(arms[one.pk]) - 1),
            "headline": stored_headline(arms[one.pk], seeds[one.task]),
        }
        for one in found
    ]
    hidden = selectors.archived_count(project)
    context = {"page": page, "rows": rows, "archived": archived, "hidden": hidden}
    return render(request, "studies/list.html", context)


def _state(progress: selectors.Progress) -> str:
    """The state of a study as that of its runs; ENDED_EARLY where none of them was done."""
    if progress.running:
        return "running"
    if progress.waiting:
        return "queued"
    if not progress.total:
        return "cancelled"
    return "succeeded" if progress.succeeded else ENDED_EARLY


# --- one study ------------------------------------------------------------------------------------------------


def study(request: HttpRequest, study_id: str) -> HttpResponse:
    """The page of a study; its results come with it and are kept fresh by `state`."""
    found = _get(request, study_id)
    payload = _payload(request, found)
    runs = [run for row in payload["results"]["rows"] for run in row["runs"]]
    context = payload | {
        "study": found,
        "runs": runs,
        "unfinished": sum(run["state"] not in ENDED for run in runs),
        "variants": [row for row in payload["results"]["rows"] if not row["by_hand"]],
        "offered": selectors.runs_to_add(found, OFFERED),
        "next_seed": max([-1, *found.seeds]) + 1,
        "compared": [run["id"] for run in runs[:COMPARED]],
    }
    return render(request, "studies/study.html", context | decision_panel(found))


def state(request: HttpRequest, study_id: str) -> HttpResponse:
    """What changes, as JSON with the regions as HTML; 204 where nothing did since `since`."""
    found = _get(request, study_id)
    if request.GET.get("since") == selectors.version_of(found):
        return HttpResponse(status=204)
    payload = _payload(request, found)
    html = {name: render_to_string(template, payload) for name, template in REGIONS.items()}
    shown = {name: payload[name] for name in ("version", "live")}
    return JsonResponse(shown | {"html": html, "figures": payload["figures"]})


REGIONS = {
    "progress": "studies/_progress.html",
    "results": "studies/_results.html",
    "legend": "studies/_legend.html",
    "slopes-table": "studies/_slopes.html",
    "axis-said": "studies/_axis.html",
}


def results_csv(request: HttpRequest, study_id: str) -> HttpResponse:
    """A row for each run, with what its variant says."""
    found = _get(request, study_id)
    payload = results(found, selectors.groups_of(found, _metric(request)), metric=_metric(request))
    return csv_file(f"study-{found.pk}", CSV_COLUMNS, csv_rows(payload))


def _get(request: HttpRequest, study_id: str) -> Study:
    """A study of one of the user's projects."""
    return get_in_projects(request, lambda project: selectors.study_by_id(project, study_id))


def _metric(request: HttpRequest) -> str:
    asked = request.GET.get("metric", "")
    return asked if is_pass_rate(asked) else DEFAULT_METRIC


def _payload(request: HttpRequest, found: Study) -> dict[str, Any]:
    """Everything of a study's page that may change while it is open."""
    metrics = selectors.metrics_of(found) or [DEFAULT_METRIC]
    metric = _metric(request) if _metric(request) in metrics else metrics[0]
    version = selectors.version_of(found)  # read before the rows: what comes meanwhile is asked for again
    shown = _results(found, version, metric, metrics.index(metric))
    progress = selectors.progress_of(found)
    for row in shown["rows"]:
        row["cells"] = [[run for run in row["runs"] if run["seed"] == seed] for seed in shown["seeds"]]
    return {
        "study": found,
        "version": version,
        "live": selectors.is_live(progress),
        "progress": progress,
        "progress_sentence": progress_sentence(progress),
        "results": shown,
        "metrics": [(name, curve_label(name)) for name in metrics],
        "metric": metric,
        "figures": {name: shown[name] for name in ("overlay", "slopes", "axis", "law")},
        "asked": _asked(request, shown["law"]),
    }


def _asked(request: HttpRequest, law: dict[str, Any] | None) -> dict[str, str]:
    """What somebody asks of a value of the axis, and the answer or what is wrong with it."""
    text = request.GET.get("axis_value", "")[:MAX_VALUE]
    if not text.strip() or law is None:
        return {"text": text}
    try:
        return {"text": text, "answer": at_value(law, number_of(text))["sentence"]}
    except InvalidInput as error:
        return {"text": text, "problem": error.message}


def _results(found: Study, version: str, metric: str, index: int) -> dict[str, Any]:
    """The results, computed once for a version: many people may watch, and shared ceilings take refits."""
    key = f"study-results:{found.pk}:{version}:{index}"
    compute = lambda: results(found, selectors.groups_of(found, metric), metric=metric)
    return cast(dict[str, Any], cache.get_or_set(key, compute, CACHE_SECONDS))


# --- what people do with it -----------------------------------------------------------------------------------


def add_run(request: HttpRequest, study_id: str) -> HttpResponse:
    """Put a run of the project into the study."""
    found = _get(request, study_id)
    text, arm = request.POST.get("run", "").strip(), request.POST.get("arm", "")
    if (run := Run.objects.filter(project=found.project_id, pk=text).first()) is None:
        messages.warning(request, f"There is no run {text[:40]} in this project.")
        return redirect("study", found.pk)
    with telling(request):
        place = services.add_run(found, run, user=signed_in(request), position=whole_in(arm, 5))
        messages.info(request, f"{run.name} is in the study now, under {place.label}.")
    return redirect("study", found.pk)


def remove_run(request: HttpRequest, study_id: str, run_id: str) -> HttpResponse:
    """Take a run out of the study; the run stays."""
    found = _get(request, study_id)
    if (run := Run.objects.filter(project=found.project_id, pk=run_id).first()) is not None:
        services.remove_run(found, run, user=signed_in(request))
        messages.info(request, f"{run.name} was taken out of the study; the run itself stays.")
    return redirect("study", found.pk)


def launch_seeds(request: HttpRequest, study_id: str) -> HttpResponse:
    """Launch every variant with further seeds."""
    found = _get(request, study_id)
    with telling(request, before="Nothing was launched. "):
        count = services.launch_seeds(
            found, numbers_in(request.POST.get("seeds", "")), user=signed_in(request)
        )
        said = f"Launched {count} further runs." if count else "These seeds were launched before."
        messages.info(request, said)
    return redirect("study", found.pk)


def stop(request: HttpRequest, study_id: str) -> HttpResponse:
    """Ask every run that has not ended to stop."""
    found = _get(request, study_id)
    count = services.stop_all(found, user=signed_in(request))
    messages.info(
        request, f"Stopping {count} run{'' if count == 1 else 's'}." if count else "Nothing to stop."
    )
    return redirect("study", found.pk)


def rename(request: HttpRequest, study_id: str) -> HttpResponse:
    """Give the study another name."""
    found = _get(request, study_id)
    name, was = request.POST.get("name", ""), request.POST.get("was", "")
    with telling(request, before="The study was not renamed. "):
        services.rename_study(found, name, was=was, user=signed_in(request))
    return redirect("study", found.pk)


def archive(request: HttpRequest, study_id: str) -> HttpResponse:
    """Hide the study from the list, or with `do=unarchive` list it again."""
    found = _get(request, study_id)
    if request.POST.get("do") == "unarchive":
        services.unarchive_study(found, user=signed_in(request))
        messages.info(request, f"{found.name} is in the list of studies again.")
        return redirect("study", found.pk)
    services.archive_study(found, user=signed_in(request))
    messages.info(request, f"{found.name} is archived. Its page, runs and results stay.")
    return redirect("studies")

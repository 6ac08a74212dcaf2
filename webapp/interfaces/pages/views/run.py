"""The run page: chart and answers (live through the figure endpoint), tabs, log, stop and resume.

Every record of a run as a file, and the files that its trainer gave away.

The responses that a run kept: to be read, filtered, followed over the steps, compared and saved.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from scaling import MIN_POINTS
from webapp.base.errors import REFUSED, Conflict, InvalidInput
from webapp.base.formats import NoAmount, amount_in, whole_in
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces import files
from webapp.interfaces.exports.forms import download, jsonl_pieces
from webapp.interfaces.exports.forms import download as file_of
from webapp.interfaces.exports.of_project import run_pieces
from webapp.interfaces.pages import marks
from webapp.interfaces.pages.access import allow, get_run, granted, projects_of, signed_in
from webapp.interfaces.pages.answers import (
    page_or_fragment,
    refusal_json,
    refusal_text,
    telling,
    wants_fragment,
)
from webapp.interfaces.pages.prediction.listing import of_run
from webapp.interfaces.pages.run import attempts as alarm_pages
from webapp.interfaces.pages.run import meaning as meanings
from webapp.interfaces.pages.run import samples
from webapp.interfaces.pages.run import tabs as forecast_page
from webapp.interfaces.pages.run.attempts import before_resuming, last_words, since
from webapp.interfaces.pages.run.benchmarks import ASKED, asked_in
from webapp.interfaces.pages.run.diagnostics import diagnostics_payload
from webapp.interfaces.pages.run.meaning import changes_in
from webapp.interfaces.pages.run.questions import BadQuestion, FigureRequest, forgiving, question_of
from webapp.interfaces.pages.run.tabs import CONTEXTS, HEAVY, PLAN_FIELDS, TABS, TabRequest
from webapp.interfaces.pages.run.timeline import until_of
from webapp.record.artifacts import store
from webapp.record.evaluations.services import ask_for, cancel
from webapp.record.logs.selectors import Kept
from webapp.record.runs import editing, launch, lifecycle, places
from webapp.record.runs.bounds import SPENT_SHARE
from webapp.record.runs.editing import change_run
from webapp.record.runs.ingest import refused_of
from webapp.record.runs.meaning import state_meaning
from webapp.record.runs.models import Attempt, Run, State, Summary
from webapp.record.runs.observation import silence_of
from webapp.record.runs.states import ACTIVE, ENDED
from webapp.record.runs.timeline import as_trace, timeline_of
from webapp.record.samples.selectors import files_of, lines_of
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.services import current_alarms
from webapp.science.curves.answers import DEFAULT_GOAL
from webapp.science.curves.run.figure import run_figure
from webapp.science.curves.words import AXES, DEFAULT_AXIS
from webapp.science.predictions.selectors import status_of


def page_figure(run: Run, asked: FigureRequest, alarms: list[Alarm], *, may_launch: bool) -> dict[str, Any]:
    """The payload of `run_figure` with what only the page needs: the drawn whisker and what the reader may do now."""
    payload = run_figure(
        run, asked.question, view=asked.view, goal=asked.goal, superseded=asked.superseded, may_wait=True
    )
    payload |= forecast_page.words_of(payload)
    nothing = not payload["points"]["x"] and (payload["unknown"] or not payload["start"])
    actions = {name: may_launch and may(run) for name, may in ACTIONS.items()}
    return payload | {
        "ceiling_svg": marks.labelled_whisker(payload["forecast_ceiling"]),
        "alarms_html": alarm_pages.banner(alarms),
        "alarm": alarm_pages.headline(alarms),
        "alarm_level": alarm_pages.worst_level(alarms),
        "last_words_html": last_words(run),
        "policies_html": alarm_pages.acted(run),
        "refused": refused_of(run).words,
        "state_reason": payload["state_reason"] or silence_of(run),
        "asked": asked_of(asked),
        "empty": meanings.nothing_to_draw(run, asked.question) if nothing else None,
        "actions": actions,
        "resume_html": before_resuming(run) if actions["resume"] else "",
    }


def asked_of(request: FigureRequest) -> dict[str, Any]:
    """The question as the page's script keeps it and asks it again; null is what the address need not say."""
    goal, question = request.goal, request.question
    asked = {name: getattr(question, name) for name in ("x", "metric", "robust", "cutoff")}
    asked |= {"lo": question.window_lo, "view": request.view, "superseded": request.superseded}
    asked |= {"target": None, "of": None}
    if goal != DEFAULT_GOAL:
        asked |= {"target": goal.value if goal.of == "rate" else round(100 * goal.value, 6), "of": goal.of}
    return asked


def may_launch(request: HttpRequest) -> bool:
    """Whether the reader's role in the run's project reaches as far as stopping and resuming it."""
    return Permission.LAUNCH in granted(request)


def may_say_meaning(request: HttpRequest, run: Run) -> bool:
    """Whether the page asks what the run's metrics mean: it trains elsewhere, and the reader may report to it."""
    return run.origin == Run.Origin.TRACKED and Permission.CONTRIBUTE in granted(request)


def may_stop(run: Run) -> bool:
    """Whether the page offers to stop it: a run that trains elsewhere is not ours to stop."""
    return run.origin == Run.Origin.LAUNCHED and run.state in ACTIVE - {State.STOPPING}


def may_resume(run: Run) -> bool:
    """Whether the page offers to resume it: it ended before its budget did, or has been given more since."""
    if run.origin != Run.Origin.LAUNCHED or run.state not in ENDED:
        return False
    return run.state != State.SUCCEEDED or _is_extended(run)


def _is_extended(run: Run) -> bool:
    """Whether a run that has used its budget, and so succeeded, was given a larger one since."""
    if run.budget_hours is None or (run.config.get("budget") or {}).get("max_steps") is not None:
        return False
    used = Summary.objects.filter(run=run).values_list("used_hours", flat=True).first()
    return used is not None and used < SPENT_SHARE * run.budget_hours


def may_extend(run: Run) -> bool:
    """Whether the page offers a larger budget: of a run that was launched here."""
    return run.origin == Run.Origin.LAUNCHED and run.state != State.DRAFT and run.budget_hours is not None


def is_draft(run: Run) -> bool:
    """Whether it can be launched or deleted."""
    return run.state == State.DRAFT


def may_set_priority(run: Run) -> bool:
    """Whether its place in the queue still matters."""
    return run.state in places.TAKES_PRIORITY


ACTIONS: dict[str, Callable[[Run], bool]] = {
    "stop": may_stop, "resume": may_resume, "extend": may_extend, "launch": is_draft, "delete": is_draft,
    "priority": may_set_priority,
}  # fmt: skip


def page(request: HttpRequest, run_id: str) -> HttpResponse:
    """The whole page, or, asked by htmx, the panel of one tab. What cannot be read in the address is said.

    A tab whose analysis takes many fits comes as a fragment only.
    """
    try:
        run = get_run(request, run_id)
    except Http404:
        return _where_it_can_be_restored(request, run_id)
    if run.pk != run_id:
        return redirect("run", run.pk)
    if "x" not in request.GET and not wants_fragment(request) and run.origin == Run.Origin.TRACKED:
        known = meanings.known_axis(run)
        if known not in (None, DEFAULT_AXIS):  # say so in the address, as if the reader had chosen it
            return redirect(f"{request.path}?{urlencode({'x': known})}&{request.GET.urlencode()}".rstrip("&"))
    tab = request.GET.get("tab", "diagnostics")
    tab = tab if tab in TABS else "diagnostics"
    asked = TabRequest(run, request.GET, *forgiving(request.GET))
    context: dict[str, Any] = {"run": run, "tab": tab, "tabs": TABS, "priorities": Run.Priority.choices}
    if wants_fragment(request) or tab not in HEAVY:
        context |= CONTEXTS[tab](asked)
    else:
        context["lazy"] = True  # the page is there first; its script asks for the panel
    if not wants_fragment(request):
        shown = page_figure(run, asked.asked, asked.alarms, may_launch=may_launch(request))
        context |= {
            "figure": shown,
            "nothing": shown["empty"] is not None,
            "fewest_fitted": MIN_POINTS,
            "meaning": meanings.form_of(run) if may_say_meaning(request, run) else None,
            "axes": AXES,
            "predictions": [(one, status_of(one)) for one in of_run(run.project, run.pk)],
            "problems": [
                error for error in asked.problems if tab != "plan" or error.field not in PLAN_FIELDS
            ],
        }
    return page_or_fragment(request, "run/page.html", "run/_tabs.html", context)


def _where_it_can_be_restored(request: HttpRequest, run_id: str) -> HttpResponse:
    """The list of the run alone, where it is one that was deleted lately. Raises Http404."""
    deleted = Run.with_deleted.filter(project__in=projects_of(request)).select_related("project")
    allow(request, get_object_or_404(deleted, pk=run_id).project)
    return redirect(f"{reverse('runs')}?{urlencode({'filter': f'deleted:yes id:{run_id}'})}")


def figure(request: HttpRequest, run_id: str) -> HttpResponse:
    """The figure as JSON; 204 when nothing changed since version `since`; 400 names the parameter at fault."""
    run = get_run(request, run_id)
    if request.GET.get("since") == str(run.version):
        return HttpResponse(status=204)
    try:
        asked = question_of(request.GET)
        return JsonResponse(page_figure(run, asked, current_alarms(run), may_launch=may_launch(request)))
    except BadQuestion as error:
        return refusal_json(error)


def panels(request: HttpRequest, run_id: str) -> JsonResponse:
    """The panels of the run's diagnostics: what their script draws."""
    run = get_run(request, run_id)
    return JsonResponse(diagnostics_payload(run, current_alarms(run), request.GET))


def log(request: HttpRequest, run_id: str, attempt: int) -> StreamingHttpResponse:
    """What is kept of an attempt's log, as a text file to save."""
    found = _attempt(get_run(request, run_id), attempt)
    headers = {"Content-Disposition": f'attachment; filename="{run_id}-attempt-{attempt}.log"'}
    return StreamingHttpResponse(
        Kept(found).text(), content_type="text/plain; charset=utf-8", headers=headers
    )


def log_lines(request: HttpRequest, run_id: str, attempt: int) -> JsonResponse:
    """The lines after the number `after`: what the open log appends."""
    found = _attempt(get_run(request, run_id), attempt)
    if (after := whole_in(request.GET.get("after", ""), 15)) is None:
        return refusal_json(BadQuestion("after", "the number of a line."))
    return JsonResponse(since(found, after))


def _attempt(run: Run, number: int) -> Attempt:
    found = run.attempts.filter(number=number).first() if number < 2**31 else None
    if found is None:
        raise Http404(f"run {run.pk} has no attempt {number}")
    return found


def stop(request: HttpRequest, run_id: str) -> HttpResponse:
    """Ask the run to stop."""
    return _change(request, run_id, lifecycle.cancel_run, "Stopping")


def resume(request: HttpRequest, run_id: str) -> HttpResponse:
    """Launch the run's next attempt from its last checkpoint."""
    return _change(request, run_id, launch.resume_run, "Resuming")


def evaluate(request: HttpRequest, run_id: str) -> HttpResponse:
    """Measure a checkpoint of the run on a benchmark."""
    run = get_run(request, run_id)
    try:
        found, is_new = ask_for(run, asked_in(request.POST.dict()), user=signed_in(request))
    except REFUSED as error:
        messages.warning(request, str(error))  # at the top: no fragment, or the page would open below it
        asked = {name: request.POST.get(name, "")[:1000] for name in ASKED}
        return redirect(f"{reverse('run', args=[run.pk])}?{urlencode({'tab': 'benchmarks'} | asked)}")
    words = "will be measured" if is_new else f"was asked for before, and has {found.state}"
    messages.info(request, f"Step {found.step:,} on {found.label} {words}.")
    return _to_benchmarks(run)


def cancel_evaluation(request: HttpRequest, run_id: str, evaluation_id: int) -> HttpResponse:
    """Have a benchmark of a checkpoint not measured."""
    run = get_run(request, run_id)
    one = get_object_or_404(run.evaluations, pk=evaluation_id)
    with telling(request, Conflict):
        cancel(one, user=signed_in(request))
        messages.info(request, f"{one} {'is' if one.state == 'cancelled' else 'will be'} cancelled.")
    return _to_benchmarks(run)


def _to_benchmarks(run: Run) -> HttpResponse:
    return redirect(f"{reverse('run', args=[run.pk])}?tab=benchmarks#tabs")


def extend(request: HttpRequest, run_id: str) -> HttpResponse:
    """Give the run a larger budget, in device-hours in all."""
    run = get_run(request, run_id)
    try:
        hours = amount_in(request.POST.get("budget_hours", "").strip())
    except NoAmount as error:
        messages.warning(request, f"The budget was not extended: {error}.")
        return redirect("run", run.pk)
    extend = lambda run, user: lifecycle.extend_run(run, hours, user=user)
    return _change(request, run_id, extend, "Extended the budget of")


def priority(request: HttpRequest, run_id: str) -> HttpResponse:
    """Put the queued run before or after others of its project."""
    value = -1 if (number := whole_in(request.POST.get("priority", ""), 2)) is None else number
    put = lambda run, user: places.set_priority(run, value, user=user)
    return _change(request, run_id, put, "Changed the priority of")


def change(request: HttpRequest, run_id: str) -> HttpResponse:
    """Put right what is said of the run: name, tags and notes; of one that trains elsewhere also task, model, seed."""
    say = lambda run, user: change_run(run, changes_in(request.POST.dict()), user=user)
    return _change(request, run_id, say, "Changed what is said of")


def meaning(request: HttpRequest, run_id: str) -> HttpResponse:
    """Say which metric is the pass rate of a run that trains elsewhere, and on how many devices it trains."""
    say = lambda run, user: state_meaning(run, meanings.meaning_in(request.POST.dict()), user=user)
    return _change(request, run_id, say, "Noted what the metrics mean of")


def meaning_preview(request: HttpRequest, run_id: str) -> HttpResponse:
    """The curve as it would be if this were said of the metrics; nothing is stored."""
    run = get_run(request, run_id)
    try:
        curve = meanings.preview(run, meanings.meaning_in(request.POST.dict()))
    except REFUSED as error:
        curve = {"problem": str(error)}
    return render(request, "run/_meaning_preview.html", {"curve": curve})


def launch_draft(request: HttpRequest, run_id: str) -> HttpResponse:
    """Launch a draft."""
    return _change(request, run_id, editing.launch_draft, "Launched")


def delete_draft(request: HttpRequest, run_id: str) -> HttpResponse:
    """Delete a draft for good."""
    run = get_run(request, run_id)
    with telling(request, Conflict):
        editing.delete_draft(run, user=signed_in(request))
        messages.info(request, f"Deleted the draft {run.name}.")
        return redirect("runs")
    return redirect("run", run_id)


def _change(request: HttpRequest, run_id: str, service: Callable[..., Run], done: str) -> HttpResponse:
    run = get_run(request, run_id)
    with telling(request, REFUSED):
        service(run, user=signed_in(request))
        messages.info(request, f"{done} {run.name}.")
    return redirect("run", run.pk)


def records(request: HttpRequest, run_id: str, form: str) -> HttpResponseBase:
    """Unsampled and streamed, without superseded records; 422 with the reason where a table would be too wide."""
    run = get_run(request, run_id)
    try:
        return download(form, f"{run.pk}-records", run_pieces(run, form))
    except InvalidInput as error:
        return refusal_text(error)


def timeline(request: HttpRequest, run_id: str) -> HttpResponseBase:
    """Where the time of the steps up to `until` went, as Perfetto and Chrome's tracing read it."""
    run = get_run(request, run_id)
    name = f'attachment; filename="{run.pk}-timeline.json"'
    found = as_trace(run, timeline_of(run, until_of(request.GET)))
    return JsonResponse(found, headers={"Content-Disposition": name})


def file(request: HttpRequest, run_id: str, path: str) -> HttpResponseBase:
    """A file of the run, to be saved."""
    return files.download(store.find(get_run(request, run_id), path))


def samples_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """A step's responses, or those to one prompt. What cannot be read in the address is said."""
    run = get_run(request, run_id)
    return render(request, "run/samples.html", samples.samples_context(run, request.GET))


def download_samples(request: HttpRequest, run_id: str) -> HttpResponseBase:
    """What the page shows as JSON lines, whole; of all steps where the address names none."""
    run = get_run(request, run_id)
    asked = samples.asked_of(request.GET)
    chosen = {"kind": asked.kind or None, "step": asked.step}
    files = files_of(run).filter(**{name: value for name, value in chosen.items() if value is not None})
    of = "" if asked.step is None else f"-step-{asked.step}"
    return file_of("jsonl", f"{run.pk}-samples{of}", jsonl_pieces(lines_of(list(files), asked.wanted)))

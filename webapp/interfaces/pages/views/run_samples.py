"""The responses that a run kept: to be read, filtered, followed over the steps, compared and saved."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from webapp.interfaces.exports.forms import download as file_of
from webapp.interfaces.exports.forms import jsonl_pieces
from webapp.interfaces.pages.access import get_run
from webapp.interfaces.pages.run.samples import asked_of, samples_context
from webapp.record.samples.selectors import files_of, lines_of


def page(request: HttpRequest, run_id: str) -> HttpResponse:
    """A step's responses, or those to one prompt. What cannot be read in the address is said."""
    run = get_run(request, run_id)
    return render(request, "run/samples.html", samples_context(run, request.GET))


def download(request: HttpRequest, run_id: str) -> HttpResponseBase:
    """What the page shows as JSON lines, whole; of all steps where the address names none."""
    run = get_run(request, run_id)
    asked = asked_of(request.GET)
    chosen = {"kind": asked.kind or None, "step": asked.step}
    files = files_of(run).filter(**{name: value for name, value in chosen.items() if value is not None})
    return file_of("jsonl", f"{run.pk}-samples", jsonl_pieces(lines_of(list(files), asked.wanted)))

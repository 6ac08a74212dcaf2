"""Predictions: the list in its parts, and the whole of it as CSV."""

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.base.spreadsheets import csv_file
from webapp.interfaces.pages.access import current_project, signed_in
from webapp.interfaces.pages.prediction.listing import (
    CSV_COLUMNS,
    PARTS,
    SORTS,
    Listing,
    choices_of,
    counts_of,
    csv_rows,
)
from webapp.science.predictions import selectors
from webapp.science.predictions.status import REVIEW_WORDS

PAGE_SIZE = 25


def predictions(request: HttpRequest) -> HttpResponse:
    """One part of the list. The number of queries does not grow with it."""
    project, reader, asked = current_project(request), signed_in(request), Listing.of(request.GET)
    page = Paginator(asked.rows(project, reader), PAGE_SIZE).get_page(request.GET.get("page"))
    counts = counts_of(project, reader)
    context = {
        "asked": asked,
        "parts": [(name, part, counts[name]) for name, part in PARTS.items()],
        "part": PARTS[asked.part],
        "page": page,
        "rows": [(one, selectors.status_of(one)) for one in page.object_list],
        "none_at_all": not any(counts.values()),
        "sorts": [(key, title) for key, (title, _) in SORTS.items()],
        "reviews": REVIEW_WORDS.items(),
        **choices_of(project),
    }
    return render(request, "predictions/list.html", context)


def predictions_csv(request: HttpRequest) -> HttpResponse:
    """Every prediction of the project, with what came of it."""
    found = selectors.predictions_of(current_project(request))
    return csv_file("predictions", CSV_COLUMNS, csv_rows(found))

"""How well a team's claims hold: coverage against what was claimed, and, if the team wants it, who forecasts best."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.identity.accounts.models import User
from webapp.interfaces.pages.access import current_project
from webapp.interfaces.pages.prediction import calibration as said
from webapp.interfaces.pages.prediction.listing import choices_of
from webapp.interfaces.pages.ties import tie_stripes
from webapp.science.predictions.calibration import HORIZONS, Forecaster, calibration, forecasters


def calibration_page(request: HttpRequest) -> HttpResponse:
    """Claimed against observed, of all or of one author, recipe or horizon."""
    project = current_project(request)
    asked = {name: request.GET.get(name, "") for name in ("author", "recipe", "horizon", "by")}
    asked["by"] = asked["by"] if asked["by"] in said.BY else "level"
    asked["horizon"] = asked["horizon"] if asked["horizon"] in {key for key, _, _ in HORIZONS} else ""
    author = User.objects.filter(username=asked["author"], predictions__project=project).first()
    found = calibration(project, author=author, recipe=asked["recipe"], horizon=asked["horizon"])
    context = {
        "asked": asked | {"author": author.username if author else ""},
        "found": found,
        "figure": said.calibration_figure(found, asked["by"]),
        "by": said.BY.items(),
        "headline": said.headline(found.overall),
        "dependence": said.dependence(found.overall),
        "apart": said.apart(found.counts),
        "warnings": said.warnings(found.counts),
        "rows": said.row_cells([*found.of(asked["by"]), found.overall]),
        "horizons": [(key, title) for key, _, title in HORIZONS],
        "board": board(forecasters(project)),
        "ranks": project.ranks_forecasters,
        **choices_of(project),
    }
    return render(request, "predictions/calibration.html", context)


def board(people: list[Forecaster]) -> list[tuple[dict[str, Any], str]]:
    """The forecasters as rows with the bars of their ties."""
    rows = [
        vars(one) | {"tie_group": one.rank, "coverage": said.row_cells([one.coverage])[0]} for one in people
    ]
    return tie_stripes(rows)

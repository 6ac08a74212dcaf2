"""The form of a decision: on its own page, and in the run page's tab."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.db.models import Q

from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.forms import new_key
from webapp.record.recipes.models import Revision
from webapp.record.runs.models import Run
from webapp.record.runs.names import label_of
from webapp.science.decisions.models import Decision, DecisionKind
from webapp.science.predictions.claims import in_a_line
from webapp.science.predictions.models import Prediction
from webapp.science.predictions.scoring import open_predictions

OFFERED_RUNS, OFFERED_RECIPES, OFFERED_PREDICTIONS = 100, 100, 50
KIND_LABELS = [
    (DecisionKind.CONTINUE, "Continue"),
    (DecisionKind.STOP, "Stop"),
    (DecisionKind.SWITCH, "Switch to another"),
]


class DecisionForm(forms.Form):
    """What was decided and why; choices are those of the project."""

    kind = forms.ChoiceField(label="Decision", choices=KIND_LABELS, widget=forms.RadioSelect)
    to = forms.ChoiceField(
        required=False,
        label="Switch to",
        help_text="A run, or a recipe: then its runs on the same task and model.",
    )
    prediction = forms.ChoiceField(
        required=False,
        label="The prediction it rests on",
        help_text="Optional. What comes of it is shown here too.",
    )
    reason = forms.CharField(
        label="Why",
        widget=forms.Textarea(attrs={"rows": 4, "maxlength": 4000}),
        help_text="What you saw, and what would have changed your mind. It can't be edited later; notes can be added.",
    )
    key = forms.CharField(widget=forms.HiddenInput, max_length=64)

    def __init__(self, data: Any = None, *, project: Project, runs: Sequence[Run], **initial: Any) -> None:
        super().__init__(
            data, initial={"key": new_key(), "kind": DecisionKind.CONTINUE} | initial, label_suffix=""
        )
        self.project, self.runs = project, list(runs)
        self.fields["to"].choices = self._targets()  # type: ignore[attr-defined]
        self.fields["prediction"].choices = self._predictions()  # type: ignore[attr-defined]

    def _targets(self) -> list[Any]:
        others = Run.objects.filter(project=self.project, archived_at=None).exclude(
            pk__in=[r.pk for r in self.runs]
        )
        newest_runs = others.only("name", "seed").order_by("-created_at", "id")[:OFFERED_RUNS]
        runs = [(f"run {run.pk}", label_of(run)) for run in newest_runs]
        newest = Revision.objects.filter(recipe__project=self.project).order_by("recipe_id", "-number")
        recipes = [
            (f"recipe {revision.pk}", str(revision))
            for revision in newest.distinct("recipe_id")
            .defer("config")
            .select_related("recipe")[:OFFERED_RECIPES]
        ]
        return [("", "choose"), ("Recipes", recipes), ("Runs", runs)]

    def _predictions(self) -> list[tuple[str, str]]:
        revisions = {run.revision_id for run in self.runs if run.revision_id}
        about = Q(run__in=self.runs) | Q(revision__in=revisions) | Q(rival__in=self.runs)
        standing = open_predictions().filter(about, project=self.project)
        rows = standing.select_related("rival__revision__recipe", "author").order_by("-created_at")[
            :OFFERED_PREDICTIONS
        ]
        return [("", "none")] + [(one.pk, f"{in_a_line(one)}, by {one.author.username}") for one in rows]

    def decision(self, revises: Decision | None) -> tuple[Decision, Run | None]:
        """What is decided, as `services.decide` takes it, and the run that it switches to."""
        values = self.cleaned_data
        what, _, key = values["to"].partition(" ") if values["kind"] == DecisionKind.SWITCH else ("", "", "")
        made = Decision(kind=values["kind"], reason=values["reason"], revises=revises)
        if values["prediction"]:
            made.prediction = Prediction.objects.filter(pk=values["prediction"]).first()
        if what == "recipe":
            made.to_revision = Revision.objects.select_related("recipe").filter(pk=int(key)).first()
        return made, Run.objects.filter(pk=key).first() if what == "run" else None


def initial_of(decision: Decision | None) -> dict[str, Any]:
    """The form of a decision that revises another starts from it."""
    if decision is None:
        return {}
    to = next((one for one in decision.subjects.all() if one.part == "to"), None)
    target = f"recipe {decision.to_revision_id}" if decision.to_revision_id else ""
    return {
        "kind": decision.kind,
        "to": f"run {to.run_key}" if to else target,
        "prediction": decision.prediction_id or "",
    }

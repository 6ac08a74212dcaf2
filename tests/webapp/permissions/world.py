"""A project with one of everything, and people in every relation to it; all of it made by the services."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.auth import get_user_model

from tests.members import member
from tests.webapp.pages.data import curve_records
from webapp.accounts.models import ApiToken, Organisation, Project, Role
from webapp.accounts.services import create_project, create_token, set_role
from webapp.curves.models import Fit
from webapp.curves.services import refit
from webapp.predictions.models import Prediction
from webapp.predictions.services import freeze
from webapp.runs import ingest, launch, lifecycle
from webapp.runs.models import Run
from webapp.savedviews.models import SavedView
from webapp.savedviews.services import create_view
from webapp.shares.models import Share
from webapp.shares.services import create_share
from webapp.studies.models import Study
from webapp.studies.planning import Asked
from webapp.studies.services import create_study

ROLES = [role.value for role in Role]
OWNER = "owner of the organisation"
BOTH = "viewer here, admin of the chosen project"
ELSEWHERE, NOBODY, SIGNED_OUT = "member of another project", "member of no project", "signed out"
WHO = [*ROLES, OWNER, BOTH, ELSEWHERE, NOBODY, SIGNED_OUT]
MODEL = "tiny-arithmetic"


@dataclass
class World:
    """`user` is who asks; `project` is where the things are, made by `author`, an admin of it."""

    who: str
    project: Project
    other: Project
    author: Any
    user: Any

    @property
    def role(self) -> str | None:
        """Of the asking user in `project`."""
        return {OWNER: "admin", BOTH: "viewer"}.get(self.who, self.who if self.who in ROLES else None)

    @cached_property
    def run(self) -> Run:
        """It trains, with a curve and a fit."""
        run = self.queued_run(seed=0)
        lifecycle.report_started(run, attempt=1, resumed_from_step=None, device="cpu")
        ingest.store_records(run, curve_records(8, seed=0))
        refit(run.pk)
        run.refresh_from_db()
        return run

    def queued_run(self, *, seed: int) -> Run:
        return launch.launch_run(
            user=self.author, project=self.project, recipe="tiny-scalerl", task="arithmetic", model=MODEL,
            seed=seed, budget_hours=16.0,
        )  # fmt: skip

    @cached_property
    def fit(self) -> Fit:
        return Fit.objects.filter(run=self.run).latest("pk")

    @cached_property
    def prediction(self) -> Prediction:
        """The author's claim about the end of the run's budget."""
        return freeze(
            user=self.author, run=self.run, question={}, statement="pass_rate", target=16.0, value=0.6, lo=0.5, hi=0.7,
            reasons="The curve has bent.",
        )  # fmt: skip

    @cached_property
    def study(self) -> Study:
        asked = Asked(
            recipe="tiny-scalerl", revision=None, changes=("loss=dapo",), seeds=(0,), task="arithmetic",
            model=MODEL, budget_hours=16.0,
        )  # fmt: skip
        return create_study(
            user=self.author, project=self.project, name="What matters", kind="leave_one_out", asked=asked
        )

    @cached_property
    def share_token(self) -> str:
        question = {
            "run": self.run.pk,
            "metric": "eval/pass_rate",
            "cutoff": None,
            "lo": None,
            "x": "device_hours",
        }
        return create_share(
            user=self.author, project=self.project, kind="run", title="A curve",
            question=question | {"scale": "log"}, days=None,
        )  # fmt: skip

    @cached_property
    def share(self) -> Share:
        assert self.share_token
        return Share.objects.get(project=self.project)

    @cached_property
    def view(self) -> SavedView:
        """A view of the author's, shared with the project."""
        return create_view(
            user=self.author, project=self.project, name="Mine", filter="state:running", shared=True
        )

    @cached_property
    def own_token(self) -> ApiToken:
        """Of whoever asks where they are a member, else of the author."""
        owner = self.user if self.role else self.author
        create_token(user=owner, project=self.project, scope="read")
        return ApiToken.objects.get(user=owner, project=self.project)


def make_world(who: str) -> World:
    """The world as it stands towards this person."""
    organisation = Organisation.objects.create(slug="lab", name="Lab")
    project = create_project(slug="math", name="Math", organisation=organisation)
    other = create_project(slug="code", name="Code")  # of the default organisation
    author = member("author", project=project)
    user = None if who == SIGNED_OUT else get_user_model().objects.create_user("asking")
    if who in ROLES:
        set_role(project, user, Role(who))
    elif who == OWNER:
        organisation.owners.add(user)
    elif who == BOTH:
        set_role(project, user, Role.VIEWER)
    if who in (BOTH, ELSEWHERE):
        set_role(other, user, Role.ADMIN)
    return World(who, project, other, author, user)

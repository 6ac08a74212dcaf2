"""A project with one of everything, and people in every relation to it; all of it made by the services."""

import io
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.auth import get_user_model

from tests.deep import IS_DEEP
from tests.launching import launched
from tests.members import member
from tests.webapp.interfaces.pages.addresses import make_import, make_prediction
from tests.webapp.interfaces.pages.data import curve_records
from webapp.identity.accounts.invitations import invite
from webapp.identity.accounts.models import ApiToken, Organisation, Project, Role
from webapp.identity.accounts.services import create_project, create_token, set_role
from webapp.record.artifacts.store import store
from webapp.record.evaluations.models import Evaluation
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.models import Run
from webapp.record.samples.store import keep
from webapp.record.savedviews.models import SavedView
from webapp.record.savedviews.services import create_view
from webapp.reporting.alerts.channels import create_channel
from webapp.reporting.alerts.rules import Wanted, create_rule
from webapp.reporting.reports.services import create_link, create_report, publish
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.services import create_share
from webapp.science.curves.models import Fit
from webapp.science.curves.services import refit
from webapp.science.decisions.services import decide
from webapp.science.predictions.discussion import comment
from webapp.science.predictions.models import Prediction
from webapp.science.studies.models import Study
from webapp.science.studies.planning import StudyRequest
from webapp.science.studies.services import create_study

ROLES = [role.value for role in Role]
OWNER = "owner of the organisation"
BOTH = "viewer here, admin of the chosen project"
ELSEWHERE, NOBODY, SIGNED_OUT = "member of another project", "member of no project", "signed out"
WHO = [*ROLES, OWNER, BOTH, ELSEWHERE, NOBODY, SIGNED_OUT]
MODEL = "tiny-arithmetic"
OWN = ("own_token", "rule", "channel")  # things of whoever asks, where they are a member


def is_edge(ladder: Sequence[str], one: str, least: str) -> bool:
    """Of roles or scopes, the lowest first: what is needed, the one below, and the highest. The long form takes all."""
    place = ladder.index(least)
    return IS_DEEP or ladder.index(one) in (place - 1, place, len(ladder) - 1)


def is_asked(who: str, least: str) -> bool:
    """Whether this person is asked for what `least` may: in the short form an owner, who is an admin, only where an
    admin is needed, and of the roles those of an edge.
    """
    if who == OWNER:
        return IS_DEEP or least == ROLES[-1]
    return who not in ROLES or is_edge(ROLES, who, least)


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

    @property
    def owner(self) -> Any:
        """Whose things are that belong to one person: of whoever asks, where they are a member."""
        return self.user if self.role else self.author

    @cached_property
    def run(self) -> Run:
        """It trains, with a curve and a fit."""
        return trained(self.queued_run(seed=0), 8)

    def queued_run(self, *, seed: int) -> Run:
        return launched(
            user=self.author, project=self.project, recipe="tiny-scalerl", task="arithmetic", model=MODEL,
            seed=seed, budget_hours=16.0,
        )  # fmt: skip

    @cached_property
    def fit(self) -> Fit:
        return Fit.objects.filter(run=self.run).latest("pk")

    @cached_property
    def study(self) -> Study:
        asked = StudyRequest(
            name="What matters", recipe="tiny-scalerl", changes=("loss=dapo",), seeds=(0,), task="arithmetic",
            model=MODEL, budget_hours=16.0,
        )  # fmt: skip
        return create_study(asked, user=self.author, project=self.project).study

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
        return Share.objects.get(project=self.project, kind=Share.Kind.RUN)

    @cached_property
    def view(self) -> SavedView:
        """A view of the author's, shared with the project."""
        return create_view(
            user=self.author, project=self.project, name="Mine", filter="state:running", shared=True
        )

    @cached_property
    def own_token(self) -> ApiToken:
        """Of whoever asks where they are a member, else of the author."""
        create_token(user=self.owner, project=self.project, scope="read")
        return ApiToken.objects.get(user=self.owner, project=self.project)

    @cached_property
    def colleague(self) -> Any:
        """A reviewer of the project."""
        return member("colleague", project=self.project, role=Role.REVIEWER)

    @cached_property
    def prediction(self) -> Prediction:
        """Of the author, who is asked for a review by nobody yet."""
        return make_prediction(self.author, self.run)

    @cached_property
    def comment(self) -> Any:
        return comment(self.prediction, user=self.author, text="Why?")

    @cached_property
    def decision(self) -> Any:
        return decide(self.run, user=self.author, kind="continue", reason="It climbs.")

    @cached_property
    def source(self) -> Any:
        """An import of the author's."""
        return make_import(self.author, self.project)

    @cached_property
    def artifact(self) -> Any:
        """A file of the run."""
        return store(self.run, "samples/step 1.txt", io.BytesIO(b"2 + 2 = 4").read)

    @cached_property
    def samples(self) -> Any:
        """Of an evaluation of the run."""
        line = b'{"prompt_id": "sum-1", "prompt": "2 + 2 =", "response": "4", "reward": 1.0, "correct": true}'
        return keep(self.run, "eval", 8, 1, io.BytesIO(line).read)

    @cached_property
    def evaluation(self) -> Any:
        """A benchmark of a checkpoint of the run that waits."""
        return Evaluation.objects.create(run=self.run, step=8, task="gsm8k", created_by=self.author)

    @cached_property
    def report(self) -> Any:
        """Published."""
        report = create_report(user=self.author, project=self.project, title="Where it ends", text="Soon.")
        publish(report, user=self.author, base=1)
        return report

    @cached_property
    def report_token(self) -> str:
        return create_link(self.report, user=self.author, days=7)

    @cached_property
    def report_link(self) -> Any:
        assert self.report_token
        return Share.objects.get(project=self.project, kind=Share.Kind.REPORT)

    @cached_property
    def rule(self) -> Any:
        """Of whoever asks where they are a member, else of the author."""
        wanted = Wanted(
            name="low entropy", on="metric",
            condition={"metric": "train/entropy", "comparison": "<", "threshold": 0.1, "in_a_row": 3},
        )  # fmt: skip
        return create_rule(user=self.owner, project=self.project, wanted=wanted)

    @cached_property
    def channel(self) -> Any:
        """Mail to whoever asks where they are a member, else to the author."""
        return create_channel(user=self.owner, project=self.project, kind="mail", name="mine")[0]

    @cached_property
    def invitation(self) -> Any:
        """(the invitation, its token)"""
        return invite(self.project, role="viewer", actor=self.author)

    def make_everything(self) -> None:
        """Each thing there is, now."""
        for name, made in vars(World).items():
            if isinstance(made, cached_property):
                getattr(self, name)


def trained(run: Run, n: int, *, seed: int = 0, **curve: Any) -> Run:
    """The run, which has reported `n` evaluations and was fitted."""
    lifecycle.report_started(run, attempt=1, resumed_from_step=None, device="cpu")
    ingest.store_records(run, curve_records(n, seed=seed, **curve))
    refit(run.pk)
    run.refresh_from_db()
    return run


def make_lab() -> World:
    """The world without anybody who asks."""
    organisation = Organisation.objects.create(slug="lab", name="Lab")
    project = create_project(slug="math", name="Math", organisation=organisation)
    other = create_project(slug="code", name="Code")  # of the default organisation
    author = member("author", project=project, email="author@lab.example")
    return World(SIGNED_OUT, project, other, author, None)


def seen_by(lab: World, who: str) -> World:
    """The same world as it stands towards this person. Things that would be their own are not made yet."""
    world = deepcopy(lab)
    world.who = who
    if who == SIGNED_OUT:
        return world
    world.user = user = get_user_model().objects.create_user("asking", "asking@lab.example")
    if who in ROLES:
        set_role(world.project, user, Role(who))
    elif who == OWNER:
        world.project.organisation.owners.add(user)
    elif who == BOTH:
        set_role(world.project, user, Role.VIEWER)
    if who in (BOTH, ELSEWHERE):
        set_role(world.other, user, Role.ADMIN)
    if world.role:
        for name in OWN:
            vars(world).pop(name, None)
    return world


def make_world(who: str) -> World:
    return seen_by(make_lab(), who)

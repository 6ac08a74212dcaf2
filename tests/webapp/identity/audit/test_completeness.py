"""Every service that changes something says so: a new one is added here, with its verb or why it has none."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import pytest
from django.contrib.auth import get_user_model
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.checkpoints import whole_checkpoint
from tests.launching import tracked_run
from tests.members import member
from tests.webapp.interfaces.pages.conftest import make_run, model_folder, project, user  # noqa: F401 (fixtures)
from webapp.identity.accounts import invitations, services
from webapp.identity.accounts.models import Invitation, Organisation, Role
from webapp.identity.audit.models import Event
from webapp.identity.secrets import services as secrets
from webapp.interfaces.imports import services as imports
from webapp.interfaces.imports.models import State
from webapp.interfaces.imports.uploads import asked_of
from webapp.interfaces.tracking import client_runs
from webapp.interfaces.tracking.models import ClientRun
from webapp.record.evaluations import services as evaluations
from webapp.record.evaluations.models import Evaluation
from webapp.record.recipes import services as recipes
from webapp.record.retention import services as retention
from webapp.record.runs import bulk, editing, launch, launch_set, lifecycle, meaning, places
from webapp.record.savedviews import services as views
from webapp.record.savedviews.models import SavedView
from webapp.reporting.policies import services as policies
from webapp.reporting.shares import services as shares
from webapp.reporting.shares.models import Share
from webapp.science.studies import services as studies
from webapp.science.studies.models import Study
from webapp.science.studies.planning import StudyRequest

VALUE = "hf_a_value_of_a_secret"
BUDGET = {"task": "arithmetic", "model": "tiny-arithmetic", "budget_hours": 1.0}


class World:
    """A person in a project, and what the services below need. Each part is made without leaving its event behind."""

    def __init__(self, user, project, make_run) -> None:  # noqa: F811
        self.user, self.project, self.make_run = user, project, make_run
        self.organisation: Organisation = project.organisation
        self.organisation.owners.add(user)
        self.bob = member("bob", role=Role.VIEWER)

    @property
    def run(self):
        return self.make_run(0)

    @property
    def ended(self):
        return self.make_run(2, ended="failed")

    @property
    def tracked(self):
        run = tracked_run(user=self.user, project=self.project)
        return lifecycle.report_finished(run, attempt=1, state="succeeded")

    @property
    def queued(self):
        return self.launch().run

    @property
    def evaluation(self):
        return Evaluation.objects.create(run=self.run, step=4, task="gsm8k")

    @property
    def draft(self):
        return self.launch(draft=True).run

    @property
    def recipe(self):
        return self.project.recipes.get(slug="tiny-scalerl")

    def changed(self):
        config = self.recipe.revisions.earliest("number").config
        return config | {"optimizer": config["optimizer"] | {"lr": 1.25e-4}}

    @property
    def study(self) -> Study:
        asked = StudyRequest(
            name="A study", recipe="tiny-scalerl", changes=("loss=dapo",), seeds=(0,), **BUDGET
        )
        return studies.create_study(asked, user=self.user, project=self.project).study

    @property
    def share(self) -> Share:
        shares.create_share(
            user=self.user,
            project=self.project,
            kind="run",
            title="A curve",
            question={"run": self.run.pk},
            days=7,
        )
        return Share.objects.latest("pk")

    @property
    def invitation(self) -> Invitation:
        return invitations.invite(self.project, role="viewer", actor=self.user)[0]

    @property
    def token(self) -> str:
        return invitations.invite(self.project, role="viewer", actor=self.user)[1]

    def view(self, shared=False) -> SavedView:
        return views.create_view(user=self.user, project=self.project, name="A view", shared=shared)

    def source(self, **changes):
        files = [SimpleUploadedFile("grpo.csv", b"step,eval/pass_rate\n1,0.1\n")]
        asked = asked_of("csv", {})
        made = imports.begin_import(user=self.user, project=self.project, asked=asked, files=files, **changes)
        return made

    def stopped_source(self):
        made = self.source()
        type(made).objects.filter(pk=made.pk).update(state=State.FAILED)
        return made

    def bulk(self, action, run, tag="", **more):
        asked = {"action": action, "run_ids": [run.pk], "key": action, "tag": tag, **more}
        bulk.act(bulk.BulkRequest(**asked), user=self.user, project=self.project)

    def launch(self, key=None, **more):
        request = replace(self.request, **more)
        return launch.launch_run(request, user=self.user, project=self.project, idempotency_key=key)

    @property
    def request(self):
        return launch.LaunchRequest(recipe="tiny-scalerl", seed=1, **BUDGET)


def _accepted_by_eve(world: World) -> None:
    invitations.accept(world.token, user=get_user_model().objects.create_user("eve"))


def _stopped_study(world: World):
    study = world.study
    return lambda: studies.stop_all(study, user=world.user)


# A service: how it is called (or what makes such a call, once all that it needs is there), and the verbs that follow.
Call = Callable[[World], object]
RECORDED: dict[str, list[tuple[Call, str]]] = {
    "webapp.identity.accounts.services.change_role": [
        (lambda w: services.change_role(w.project, w.bob, "admin", actor=w.user), "member.role_changed")
    ],
    "webapp.identity.accounts.services.remove_member": [
        (lambda w: services.remove_member(w.project, w.bob, actor=w.user), "member.removed"),
        (lambda w: services.remove_member(w.project, w.bob, actor=w.bob), "member.left"),
    ],
    "webapp.identity.accounts.services.put_member": [
        (lambda w: services.put_member(w.project, w.bob, "admin"), "member.role_changed")
    ],
    "webapp.identity.accounts.services.found_project": [
        (
            lambda w: services.found_project(w.organisation, slug="new", name="New", actor=w.user),
            "project.created",
        )
    ],
    "webapp.identity.accounts.services.change_project": [
        (
            lambda w: services.change_project(w.project, name="N", ranks_forecasters=True, actor=w.user),
            "project.changed",
        )
    ],
    "webapp.identity.accounts.services.rename_organisation": [
        (
            lambda w: services.rename_organisation(w.organisation, name="New", actor=w.user),
            "organisation.renamed",
        )
    ],
    "webapp.identity.accounts.services.add_owner": [
        (
            lambda w: services.add_owner(w.organisation, username="bob", actor=w.user),
            "organisation.owner_added",
        )
    ],
    "webapp.identity.accounts.services.remove_owner": [
        (
            lambda w: (
                w.organisation.owners.add(w.bob),
                services.remove_owner(w.organisation, user=w.bob, actor=w.user),
            ),
            "organisation.owner_removed",
        )
    ],
    "webapp.identity.accounts.invitations.invite": [(lambda w: w.invitation, "invitation.made")],
    "webapp.identity.accounts.invitations.revoke_invitation": [
        (lambda w: invitations.revoke_invitation(w.invitation, actor=w.user), "invitation.revoked")
    ],
    "webapp.identity.accounts.invitations.accept": [
        (_accepted_by_eve, "invitation.accepted"),
        (_accepted_by_eve, "member.added"),
    ],
    "webapp.identity.accounts.invitations.accept_as_new": [
        (
            lambda w: invitations.accept_as_new(w.token, username="eve", password="a-long-password"),
            "account.made",
        )
    ],
    "webapp.identity.secrets.services.set_secret": [
        (lambda w: secrets.set_secret(w.project, name="HF_TOKEN", value=VALUE, user=w.user), "secret.set"),
        (
            lambda w: [
                secrets.set_secret(w.project, name="HF_TOKEN", value=VALUE, user=w.user) for _ in range(2)
            ],
            "secret.replaced",
        ),
    ],
    "webapp.identity.secrets.services.delete_secret": [
        (
            lambda w: (
                secrets.set_secret(w.project, name="HF_TOKEN", value=VALUE, user=w.user),
                secrets.delete_secret(w.project, name="HF_TOKEN", user=w.user),
            ),
            "secret.deleted",
        )
    ],
    "webapp.record.recipes.services.create_recipe": [
        (
            lambda w: recipes.create_recipe(
                project=w.project, slug="mine", name="Mine", config=w.changed(), user=w.user
            ),
            "recipe.created",
        )
    ],
    "webapp.record.recipes.services.add_revision": [
        (
            lambda w: recipes.add_revision(recipe=w.recipe, config=w.changed(), user=w.user),
            "recipe.revised",
        )
    ],
    "webapp.record.runs.launch.launch_run": [(lambda w: w.launch(), "run.launched")],
    "webapp.record.runs.launch.track_run": [
        (lambda w: tracked_run(user=w.user, project=w.project, name="elsewhere"), "run.tracked")
    ],
    "webapp.interfaces.tracking.client_runs.make_client_run": [
        (
            lambda w: client_runs.make_client_run(
                client_runs.ensure_group(w.project, "g"),
                ClientRun(client="mlflow", name="r", start_ms=0),
                user=w.user,
            ),
            "run.tracked",
        )
    ],
    "webapp.record.runs.launch.resume_run": [
        (lambda w: launch.resume_run(w.ended, user=w.user), "run.resumed")
    ],
    "webapp.record.evaluations.services.ask_for": [
        (
            lambda w: (
                whole_checkpoint((run := w.run).pk, 4)
                and evaluations.ask_for(run, evaluations.EvaluationRequest(task="arithmetic"), user=w.user)
            ),
            "run.evaluated",
        )
    ],
    "webapp.record.evaluations.services.cancel": [
        (lambda w: evaluations.cancel(w.evaluation, user=w.user), "run.evaluation_cancelled")
    ],
    "webapp.record.runs.launch_set.launch_seeds": [
        (
            lambda w: launch_set.launch_seeds(w.request, [1, 2], user=w.user, project=w.project),
            "run.launched",
        )  # fmt: skip
    ],
    "webapp.record.runs.launch_set.launch_set": [
        (
            lambda w: launch_set.launch_set(
                launch_set.RunSet(recipes=["tiny-scalerl"], seeds=[0], label="set", **BUDGET),
                user=w.user,
                project=w.project,
            ),
            "run.launched",
        )
    ],
    "webapp.reporting.policies.services.set_project_policy": [
        (
            lambda w: policies.set_project_policy(
                w.project, actions={"advice": "stop"}, advice_delta=0.02, user=w.user
            ),
            "policy.changed",
        )
    ],
    "webapp.record.retention.services.set_policy": [
        (
            lambda w: retention.set_policy(
                w.project,
                enabled=True,
                keep_newest=1,
                checkpoint_days=9,
                log_days=9,
                under_pressure=False,
                user=w.user,
            ),
            "retention.changed",
        )
    ],
    "webapp.record.runs.lifecycle.cancel_run": [
        (lambda w: lifecycle.cancel_run(w.run, user=w.user), "run.stopped"),
        (lambda w: lifecycle.cancel_run(w.make_run(2), user=w.user), "run.stopped"),
    ],
    "webapp.record.runs.launch.queue_first_attempt": [
        (lambda w: launch.queue_first_attempt(w.draft, w.user), "run.launched")
    ],
    "webapp.record.runs.editing.launch_draft": [
        (lambda w: editing.launch_draft(w.draft, user=w.user), "run.launched")
    ],
    "webapp.record.runs.editing.delete_draft": [
        (lambda w: editing.delete_draft(w.draft, user=w.user), "run.draft_deleted")
    ],
    "webapp.record.runs.editing.change_run": [
        (lambda w: editing.change_run(w.run, {"name": "another"}, user=w.user), "run.changed")
    ],
    "webapp.record.runs.editing.delete_run": [
        (lambda w: editing.delete_run(w.tracked, user=w.user), "run.deleted")
    ],
    "webapp.record.runs.editing.change_held": [
        (lambda w: editing.change_held([w.run], {"name": "another"}, user=w.user), "run.changed")
    ],
    "webapp.record.runs.editing.delete_runs": [
        (lambda w: editing.delete_runs([w.tracked], user=w.user), "run.deleted")
    ],
    "webapp.record.runs.editing.restore_runs": [
        (
            lambda w: editing.restore_runs([editing.delete_run(w.tracked, user=w.user)], user=w.user),
            "run.restored",
        )
    ],
    "webapp.record.runs.places.set_priorities": [
        (
            lambda w: places.set_priorities([w.queued], 2, user=w.user, project=w.project),
            "run.priority_changed",
        )
    ],
    "webapp.record.runs.editing.restore_run": [
        (
            lambda w: editing.restore_run(editing.delete_run(w.tracked, user=w.user), user=w.user),
            "run.restored",
        )
    ],
    "webapp.record.runs.lifecycle.extend_run": [
        (lambda w: lifecycle.extend_run(w.queued, 2.0, user=w.user), "run.extended")
    ],
    "webapp.record.runs.meaning.state_meaning": [
        (
            lambda w: meaning.state_meaning(
                tracked_run(user=w.user, project=w.project), meaning.Meaning(devices=4), user=w.user
            ),
            "run.meaning_stated",
        )
    ],
    "webapp.record.runs.places.set_queue": [
        (
            lambda w: places.set_queue(w.project, most_at_work=1, quota_hours=None, user=w.user),
            "project.queue_changed",
        )
    ],
    "webapp.record.runs.places.set_priority": [
        (lambda w: places.set_priority(w.queued, 2, user=w.user), "run.priority_changed")
    ],
    "webapp.record.runs.bulk.act": [
        (lambda w: w.bulk("stop", w.run), "run.stopped"),
        (lambda w: w.bulk("resume", w.ended), "run.resumed"),
        (lambda w: w.bulk("priority", w.queued, priority=2), "run.priority_changed"),
        (lambda w: w.bulk("tag", w.run, "paper"), "run.tagged"),
        (
            lambda w: [w.bulk(action, run, "paper") for run in [w.run] for action in ("tag", "untag")],
            "run.untagged",
        ),
        (lambda w: w.bulk("change", w.run, changes={"notes": "odd"}), "run.changed"),
        (lambda w: w.bulk("delete", w.tracked), "run.deleted"),
        (
            lambda w: [w.bulk(action, run) for run in [w.tracked] for action in ("delete", "restore")],
            "run.restored",
        ),
        (lambda w: w.bulk("archive", w.ended), "run.archived"),
        (
            lambda w: [w.bulk(action, run) for run in [w.ended] for action in ("archive", "unarchive")],
            "run.unarchived",
        ),
    ],
    "webapp.interfaces.imports.services.begin_import": [(lambda w: w.source(), "import.started")],
    "webapp.interfaces.imports.services.start_import": [
        (
            lambda w: imports.start_import(w.source(may_ask=True), user=w.user, asked=asked_of("csv", {})),
            "import.started",
        )
    ],
    "webapp.interfaces.imports.services.resume_import": [
        (lambda w: imports.resume_import(w.stopped_source(), user=w.user), "import.resumed")
    ],
    "webapp.science.studies.services.create_study": [(lambda w: w.study, "study.created")],
    "webapp.science.studies.services.launch_seeds": [
        (lambda w: studies.launch_seeds(w.study, [5], user=w.user), "study.seeds_launched")
    ],
    "webapp.science.studies.services.add_run": [
        (lambda w: studies.add_run(w.study, w.run, user=w.user), "study.run_added")
    ],
    "webapp.science.studies.services.remove_run": [
        (
            lambda w: (
                (study := w.study) and studies.remove_run(study, study.members.first().run, user=w.user)
            ),
            "study.run_removed",
        )
    ],
    "webapp.science.studies.services.rename_study": [
        (lambda w: studies.rename_study(w.study, "New", was="A study", user=w.user), "study.renamed")
    ],
    "webapp.science.studies.services.archive_study": [
        (lambda w: studies.archive_study(w.study, user=w.user), "study.archived")
    ],
    "webapp.science.studies.services.unarchive_study": [
        (
            lambda w: (
                studies.archive_study(study := w.study, user=w.user)
                and studies.unarchive_study(study, user=w.user)
            ),
            "study.unarchived",
        )
    ],
    "webapp.science.studies.services.stop_all": [(lambda w: _stopped_study(w)(), "study.stopped")],
    "webapp.reporting.shares.services.create_share": [(lambda w: w.share, "share.made")],
    "webapp.reporting.shares.services.revoke_share": [
        (lambda w: shares.revoke_share(w.share, user=w.user), "share.closed")
    ],
    "webapp.record.savedviews.services.create_view": [(lambda w: w.view(shared=True), "view.shared")],
    "webapp.record.savedviews.services.create_layout": [
        (
            lambda w: views.create_layout(
                user=w.user, project=w.project, name="A layout", layout="m=train%2F%2A", shared=True
            ),
            "view.shared",
        )
    ],
    "webapp.record.savedviews.services.share_view": [
        (
            lambda w: views.share_view(w.view().pk, user=w.user, project=w.project, version=1, shared=True),
            "view.shared",
        ),
        (
            lambda w: views.share_view(
                w.view(True).pk, user=w.user, project=w.project, version=1, shared=False
            ),
            "view.unshared",
        ),
    ],
}
SILENT = {
    "webapp.identity.accounts.services": {
        "create_token": "told: tests/webapp/identity/accounts",
        "revoke_token": "told: tests/webapp/identity/accounts",
        "create_project": "people make one by found_project",
        "set_role": "people change one by change_role",
        "default_organisation": "the installation's own",
        "default_project": "the installation's own",
        "first_account": "reads",
        "digest": "reads",
        "lock": "a lock",
        "checked_role": "reads",
        "found_organisation": "told in the new organisation's own log: tests/webapp/identity/accounts",
        "person_of": "reads",
        "checked_name": "reads",
        "checked_slug": "reads",
    },
    "webapp.identity.accounts.invitations": {
        "send_invitation": "a mail of what was told",
        "open_invitations": "reads",
        "find_invitation": "reads",
        "why_refused": "reads",
    },
    "webapp.identity.secrets.services": {
        "check_name": "reads",
        "redacted": "reads",
        "live_secrets": "reads",
        "hand_to_job": "part of a launch, which is told; when it was last is kept beside the secret",
        "redact": "reads",
        "redact_many": "reads",
        "values_of": "reads",
        "encrypt_anew": "the operator's; no secret changes",
    },
    "webapp.record.recipes.services": {
        "check_model_place": "reads",
        "model_roots": "reads",
        "outside_data": "reads",
        "misplaced": "reads",
        "words_on": "reads",
        "parse_config": "reads",
        "sync_shipped_recipes": "the installation brings its own recipes",
        "shipped_recipes": "reads",
        "shipped_slugs": "reads",
    },
    "webapp.record.runs.launch": {
        "run_once": "part of a launch, which is told",
        "revision_of": "reads",
        "resolved_config": "reads",
        "objections": "reads",
        "job_spec": "the worker's part of a launch, which is told",
        "said_in": "reads",
    },
    "webapp.record.evaluations.services": {
        "checkpoints_by_step": "reads",
    },
    "webapp.record.runs.meaning": {
        "meaning_of": "reads",
        "mean_incoming": "part of what a trainer reports",
        "as_if_said": "a preview: nothing of it stays",
        "has_more_points": "reads",
        "remake_points": "the worker's part of what was said, which is told",
    },
    "webapp.record.runs.places": {
        "prospect": "reads",
        "waiting_of": "reads",
        "quota_of": "reads",
        "beyond_quota": "reads",
        "check_quota": "reads",
        "share_of": "reads",
        "check_priority": "reads",
    },
    "webapp.record.runs.launch_set": {"leave_one_out": "reads"},
    "webapp.record.runs.lifecycle": {
        "claim_dispatches": "the worker's part of a launch",
        "go_on": "system: tests/webapp/record/runs/test_retrying.py",
        "retry_failed": "system: tests/webapp/record/runs/test_retrying.py",
        "is_retry_wanted": "reads",
        "dispatch_done": "the worker's part of a launch",
        "dispatch_failed": "the worker's part of a launch",
        "report_started": "a trainer's report",
        "report_finished": "a trainer's report",
        "ensure_attempts": "a trainer's report",
    },
    "webapp.record.runs.ingest": {
        "store_records": "a trainer's report",
        "store_held": "a trainer's report",
        "note_records": "a trainer's report",
        "spent_hours": "reads",
        "summary_of": "reads",
        "thinned": "reads",
        "note_refused": "a trainer's report",
        "refused_of": "reads",
    },
    "webapp.interfaces.tracking.client_runs": {
        "presentable": "reads",
        "describe": "a trainer's report",
        "go_on": "a trainer's report",
        "end": "a trainer's report",
        "end_silent_trackio": "the worker's view of a trainer's silence",
        "set_deleted": "hides it from its own client; nothing is deleted",
        "add_model": "a trainer's report",
        "change_model": "a trainer's report",
        "create_group": "a trainer's name for its runs",
        "ensure_group": "a trainer's name for its runs",
        "rename_group": "a trainer's name for its runs",
        "set_group_deleted": "hides it from clients; nothing is deleted",
        "set_group_tags": "a trainer's report",
    },
    "webapp.interfaces.trackio.services": {
        "parse": "reads",
        "read": "reads",
        "listed": "reads",
        "objects": "reads",
        "text": "reads",
        "ensure_run": "a trainer's report; a new run is told by make_client_run",
        "store_lines": "a trainer's report; a new run is told by make_client_run",
        "store_alerts": "a trainer's report",
        "note_refused_file": "a trainer's report",
    },
    "webapp.record.runs.editing": {
        "cleaned": "reads",
        "determined": "reads",
        "report_described": "a trainer's report",
        "remove": "part of deletions that are told",
        "remove_runs": "the owner's removal of a project's runs",
        "purge": "what was told when it was deleted",
    },
    "webapp.record.runs.bulk": {
        "most_for": "reads",
        "sentence": "reads",
        "report_of": "reads",
    },
    "webapp.reporting.policies.services": {
        "set_run_policy": "a part of a launch",
        "checked": "reads",
        "act_on": "system: tests/webapp/reporting/policies",
        "sweep": "system: tests/webapp/reporting/policies",
    },
    "webapp.record.retention.services": {
        "clean_up": "system: tests/webapp/record/retention",
        "clean_run": "system: tests/webapp/record/retention",
        "watch_disk": "what the disk shows",
    },
    "webapp.interfaces.imports.services": {
        "kind_of": "reads",
        "mapping_of": "reads",
        "preview_of": "reads",
        "clean_up": "system: tests/webapp/interfaces/imports",
    },
    "webapp.science.studies.services": {"checked_name": "reads", "record_change": "tells of the others"},
    "webapp.reporting.shares.services": {
        "clean_title": "reads",
        "question_of": "reads",
        "title_of": "reads",
        "note_visit": "a visit changes nothing that anybody made",
    },
    "webapp.record.savedviews.services": {
        "overwrite_view": "a person's own list of runs",
        "rename_view": "a person's own list of runs",
        "delete_view": "a person's own list of runs",
        "set_default": "a person's own list of runs",
    },
}


@pytest.fixture
def world(user, project, make_run):  # noqa: F811
    return World(user, project, make_run)


@pytest.mark.parametrize("module", SILENT)
def test_every_service_is_told_of_or_has_a_reason(module):
    functions = inspect.getmembers(import_module(module), inspect.isroutine)
    own = {
        name
        for name, function in functions
        if getattr(function, "__module__", "") == module and not name.startswith("_")
    }
    told = {name.rpartition(".")[2] for name in RECORDED if name.rpartition(".")[0] == module}

    assert own == told | set(SILENT[module])
    assert not told & set(SILENT[module])


CASES = [(name, place) for name, cases in RECORDED.items() for place in range(len(cases))]


@pytest.mark.parametrize(("name", "place"), CASES)
def test_a_service_leaves_its_event(world, name, place):
    call, verb = RECORDED[name][place]

    call(world)

    events = list(Event.objects.filter(verb=verb))
    assert events, f"{name} left no {verb}"
    for event in events:
        assert event.organisation_id == world.organisation.pk
        assert event.object_id and event.object_kind
        assert VALUE not in str(vars(event))
    actors = {"member.left": "bob", "account.made": "eve", "invitation.accepted": "eve"}
    expected = "system" if name.endswith("put_member") else actors.get(verb, world.user.username)
    assert {event.actor_name for event in events} == {expected}


def test_what_changes_nothing_is_not_told(world):
    config = world.changed()
    repeatable = (
        lambda: world.launch("k"),
        lambda: services.put_member(world.project, world.bob, "admin"),
        lambda: recipes.add_revision(recipe=world.recipe, config=config, user=world.user),
        lambda: world.bulk("tag", run, "paper"),
        lambda: shares.revoke_share(share, user=world.user),
        lambda: lifecycle.cancel_run(run, user=world.user),
    )
    run, share = world.run, world.share
    for call in repeatable:
        call()
    before = Event.objects.count()
    for call in repeatable:
        call()

    assert Event.objects.count() == before

"""Forms of members, invitations, projects, organisations, secrets and the audit log. The services decide.

Forms of what happens by itself in a project. The services decide.
"""

from typing import Any

from django import forms

from webapp.identity.accounts.invitations import DEFAULT_DAYS
from webapp.identity.accounts.models import Project, Role
from webapp.identity.accounts.services import MOST_METRICS
from webapp.interfaces.pages.forms import ServiceForm
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.places import LEAST_SHARE, MOST_SHARE
from webapp.reporting.policies.models import KINDS
from webapp.reporting.policies.selectors import Policy

ROLES = (
    (Role.VIEWER, "viewer: sees everything of the project"),
    (Role.CONTRIBUTOR, "contributor: also reports runs, writes recipes, predictions, comments"),
    (Role.LAUNCHER, "launcher: also launches, stops and resumes runs"),
    (Role.REVIEWER, "reviewer: also judges the predictions of others"),
    (Role.ADMIN, "admin: also members, invitations, secrets, the audit log"),
)
OFF = {"autocomplete": "off", "spellcheck": "false"}
NO_COMPLETION = {"autocomplete": "off"}


class InviteForm(ServiceForm):
    """A new invitation."""

    role = forms.ChoiceField(choices=ROLES, label="As")
    email = forms.EmailField(
        required=False,
        max_length=254,
        label="Mail address, optional",
        help_text="Stored with the new account.",
        widget=forms.EmailInput(attrs=OFF),
    )
    days = forms.TypedChoiceField(
        coerce=int,
        label="Open",
        choices=[(1, "for 1 day"), (DEFAULT_DAYS, f"for {DEFAULT_DAYS} days"), (30, "for 30 days")],
        initial=DEFAULT_DAYS,
    )


class JoinForm(ServiceForm):
    """A new account, by an invitation."""

    username = forms.CharField(
        max_length=60,
        label="Name",
        help_text="What colleagues see. Letters, digits and @ . + - _.",
        widget=forms.TextInput(
            attrs={"autocomplete": "username", "spellcheck": "false", "autocapitalize": "none"}
        ),
    )
    password = forms.CharField(
        strip=False,
        max_length=1000,
        help_text="At least 10 characters, and not one of the common ones.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    again = forms.CharField(
        strip=False,
        max_length=1000,
        label="Password, once more",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean_again(self) -> str:
        """The two must be one."""
        again = self.cleaned_data["again"]
        if "password" in self.cleaned_data and again != self.cleaned_data["password"]:
            raise forms.ValidationError("The two passwords differ.")
        return again


class ProjectForm(ServiceForm):
    """What a project is called, and what it shows."""

    name = forms.CharField(max_length=100, widget=forms.TextInput(attrs=OFF))
    ranks_forecasters = forms.BooleanField(
        required=False,
        label="Rank forecasters",
        help_text="A leaderboard of people by their predictions.",
    )
    max_metrics = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_METRICS,
        label="Metrics of a run",
        help_text="Further ones have no curve.",
        widget=forms.TextInput(attrs=OFF | {"inputmode": "numeric"}),
    )

    @classmethod
    def of(cls, project: Project, data: Any = None) -> "ProjectForm":
        """With what the project has now."""
        return cls(data, initial={name: getattr(project, name) for name in cls.base_fields})


class QueueForm(ServiceForm):
    """What the project may take of the cluster."""

    most_at_work = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=10_000,
        label="Runs at work at a time",
        help_text="Others are queued. Empty: as many as the cluster holds.",
        widget=forms.TextInput(attrs=OFF | {"inputmode": "numeric"}),
    )
    quota_hours = forms.FloatField(
        required=False,
        min_value=0,
        max_value=1e9,
        label="Quota, device-hours",
        help_text="Of all launched runs together. Empty: none.",
        widget=forms.TextInput(attrs=OFF | {"inputmode": "decimal"}),
    )
    share = forms.FloatField(
        required=False,
        min_value=LEAST_SHARE,
        max_value=MOST_SHARE,
        label="Share of the cluster",
        help_text="2 gets twice as much as 1. Owners of the organisation change it.",
        widget=forms.TextInput(attrs=OFF | {"inputmode": "decimal"}),
    )
    steps_back = forms.BooleanField(
        required=False,
        label="Runs may step back",
        help_text="For one of higher priority: after a checkpoint, to go on later.",
    )


class SecretForm(ServiceForm):
    """A secret, new or in the place of an older one. Its ids are its own: another form stands on the same page."""

    name = forms.CharField(
        max_length=64,
        help_text="Such as HF_TOKEN for private models and data of the hub.",
        widget=forms.TextInput(attrs=OFF | {"autocapitalize": "characters", "list": "common-secrets"}),
    )
    value = forms.CharField(
        max_length=4096,
        help_text="",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="secret_%s")


class NewProjectForm(ServiceForm):
    """A new project of an organisation."""

    slug = forms.CharField(
        max_length=50,
        help_text="For programs: a-z, 0-9 and hyphens. It stays.",
        widget=forms.TextInput(attrs=OFF),
    )
    name = forms.CharField(max_length=100, widget=forms.TextInput(attrs=OFF))


class OwnerForm(ServiceForm):
    """A new owner, among the people of the organisation's projects."""

    username = forms.ChoiceField(label="Person")

    def __init__(self, data: Any = None, *, people: list[str]) -> None:
        super().__init__(data)
        self.fields["username"].choices = [(name, name) for name in people]  # type: ignore[attr-defined]


class OrganisationForm(ServiceForm):
    """What the organisation is called."""

    name = forms.CharField(max_length=100, widget=forms.TextInput(attrs=OFF))


class AuditForm(forms.Form):
    """What is looked for in the audit log. It shows what was asked; `webapp.identity.audit.selectors.asked_by` reads
    it."""

    person = forms.CharField(required=False, widget=forms.TextInput(attrs=OFF | {"list": "people"}))
    verb = forms.CharField(
        required=False,
        label="What",
        widget=forms.TextInput(attrs=OFF | {"list": "verbs", "placeholder": "run.launched"}),
    )
    object = forms.CharField(
        required=False, label="Of", widget=forms.TextInput(attrs=OFF | {"placeholder": "id or name"})
    )
    since = forms.CharField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.CharField(required=False, label="To", widget=forms.DateInput(attrs={"type": "date"}))


class PolicyForm(ServiceForm):
    """What is done about each kind of finding, in every run of the project."""

    advice_delta = forms.FloatField(
        label="Amount for the planner's advice",
        help_text="Of pass rate.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"} | NO_COMPLETION),
    )

    def __init__(self, data: Any = None, *, policy: Policy) -> None:
        initial = {"advice_delta": policy.advice_delta} | dict(policy.actions)
        super().__init__(data, initial=initial, prefix="policy")
        for kind in KINDS:
            choices = [(action, kind.label(action)) for action in kind.actions]
            self.fields[kind.key] = forms.ChoiceField(
                label=kind.title, help_text=kind.meaning, choices=choices
            )
        self.order_fields([kind.key for kind in KINDS])

    @property
    def actions(self) -> dict[str, str]:
        """Kind -> action, of a form that is valid."""
        return {kind.key: self.cleaned_data[kind.key] for kind in KINDS}


class RunPolicyForm(forms.Form):
    """What is done in the runs of one launch, where it is not what their project does."""

    def __init__(self, data: Any = None, *, policy: Policy, own: dict[str, str] | None = None) -> None:
        super().__init__(data, initial=own or {}, prefix="policy")
        for kind in KINDS:
            as_project = kind.label(policy.actions[kind.key]).split(":")[0]
            choices = [("", f"as the project: {as_project}")]
            choices += [(action, kind.label(action)) for action in kind.actions]
            self.fields[kind.key] = forms.ChoiceField(
                label=kind.title, help_text=kind.meaning, choices=choices, required=False
            )

    @property
    def actions(self) -> dict[str, str]:
        """Kind -> action, without those that are the project's; of a form that is valid."""
        return {key: action for key, action in self.cleaned_data.items() if action}


class RetentionForm(ServiceForm):
    """What is removed of ended runs, and when."""

    enabled = forms.BooleanField(
        required=False,
        label="Clean up",
        help_text="Each removal is in the audit log.",
    )
    keep_newest = forms.IntegerField(
        label="Newest checkpoints kept of an ended run",
        help_text="The others go an hour after its end.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"} | NO_COMPLETION),
    )
    checkpoint_days = forms.IntegerField(
        label="Days that these are kept",
        help_text="After the end. Then the run cannot be resumed.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"} | NO_COMPLETION),
    )
    log_days = forms.IntegerField(
        label="Days that whole logs and samples are kept",
        help_text="0 keeps them for good. The last 64 KiB of a log always stay.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"} | NO_COMPLETION),
    )
    under_pressure = forms.BooleanField(
        required=False,
        label="Sooner where the disk is low",
        help_text="Checkpoints but the newest of ended runs, until there is room.",
    )

    def __init__(self, data: Any = None, *, policy: RetentionPolicy) -> None:
        names = ("enabled", "keep_newest", "checkpoint_days", "log_days", "under_pressure")
        initial = {name: getattr(policy, name) for name in names}
        super().__init__(data, initial=initial, prefix="retention")

"""Forms of what happens by itself in a project. The services decide."""

from typing import Any

from django import forms

from webapp.record.retention.models import RetentionPolicy
from webapp.reporting.policies.kinds import KINDS
from webapp.reporting.policies.selectors import Policy

OFF = {"autocomplete": "off"}


class PolicyForm(forms.Form):
    """What is done about each kind of finding, in every run of the project."""

    advice_delta = forms.FloatField(
        label="Amount for the planner's advice",
        help_text="Of pass rate.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"} | OFF),
    )

    def __init__(self, data: Any = None, *, policy: Policy) -> None:
        initial = {"advice_delta": policy.advice_delta} | dict(policy.actions)
        super().__init__(data, initial=initial, label_suffix="", prefix="policy")
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
        super().__init__(data, initial=own or {}, label_suffix="", prefix="policy")
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


class RetentionForm(forms.Form):
    """What is removed of ended runs, and when."""

    enabled = forms.BooleanField(
        required=False,
        label="Clean up",
        help_text="Each removal is in the audit log.",
    )
    keep_newest = forms.IntegerField(
        label="Newest checkpoints kept of an ended run",
        help_text="The others go an hour after its end.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"} | OFF),
    )
    checkpoint_days = forms.IntegerField(
        label="Days that these are kept",
        help_text="After the end. Then the run cannot be resumed.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"} | OFF),
    )
    log_days = forms.IntegerField(
        label="Days that whole logs and samples are kept",
        help_text="0 keeps them for good. The last 64 KiB of a log always stay.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"} | OFF),
    )
    under_pressure = forms.BooleanField(
        required=False,
        label="Sooner where the disk is low",
        help_text="Checkpoints but the newest of ended runs, until there is room.",
    )

    def __init__(self, data: Any = None, *, policy: RetentionPolicy) -> None:
        names = ("enabled", "keep_newest", "checkpoint_days", "log_days", "under_pressure")
        initial = {name: getattr(policy, name) for name in names}
        super().__init__(data, initial=initial, label_suffix="", prefix="retention")

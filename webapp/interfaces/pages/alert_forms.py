"""Forms of rules, channels and quiet hours. What is right or wrong is decided by the services."""

from collections.abc import Iterable
from typing import Any

from django import forms

from webapp.base.formats import whole_in
from webapp.interfaces.pages.forms import NamingForm
from webapp.record.alarm_rules import rules_by_name
from webapp.reporting.alerts import hours
from webapp.reporting.alerts.conditions import COMPARISONS, STATES
from webapp.reporting.alerts.hours import DAY_NAMES
from webapp.reporting.alerts.models import AlertRule, Channel, QuietHours
from webapp.reporting.alerts.rules import Wanted

NUMBER = {"inputmode": "decimal", "autocomplete": "off"}
WHOLE = {"inputmode": "numeric", "autocomplete": "off"}
COOLDOWNS = [
    (0, "each time"),
    (10, "at most every 10 minutes"),
    (60, "at most once an hour"),
    (1440, "at most once a day"),
]


class RuleForm(NamingForm):
    """What every rule has; the kinds add what they watch for."""

    on = ""
    own_fields: tuple[str, ...] = ()

    name = forms.CharField(max_length=80)
    runs = forms.CharField(
        max_length=1000,
        required=False,
        label="In which runs",
        help_text="A filter, such as tag:paper or recipe:scalerl. Empty: in all.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "class": "mono"}),
    )
    to_page = forms.BooleanField(required=False, label="Page: under the bell")
    channels = forms.TypedMultipleChoiceField(
        required=False, coerce=int, label="Channels", widget=forms.CheckboxSelectMultiple
    )
    cooldown_minutes = forms.TypedChoiceField(
        coerce=int, required=False, empty_value=None, label="For the same run", choices=COOLDOWNS, initial=0
    )
    critical = forms.BooleanField(required=False, label="Critical: may break through quiet hours")
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, channels: Iterable[Channel], **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.fields["channels"].choices = [(c.pk, f"{c.name} ({c.shown})") for c in channels]  # type: ignore[attr-defined]
        minutes = self.initial.get("cooldown_minutes", 0)
        if minutes not in dict(COOLDOWNS):
            self.fields["cooldown_minutes"].choices = [*COOLDOWNS, (minutes, f"every {minutes} minutes")]  # type: ignore[attr-defined]

    @classmethod
    def initial_of(cls, rule: AlertRule) -> dict[str, Any]:
        """A stored rule as the form shows it."""
        condition = {name: value for name, value in rule.condition.items() if value is not None}
        return {
            **condition, "name": rule.name, "runs": rule.runs, "to_page": rule.to_page, "critical": rule.critical,
            "channels": [channel.pk for channel in rule.channels.all()], "version": rule.version,
            "cooldown_minutes": rule.cooldown_minutes,
        }  # fmt: skip

    def condition_given(self) -> dict[str, Any]:
        """The condition as it was typed, for `conditions.read`, which says what is wrong with it."""
        given = {name: self[name].data for name in self.own_fields}
        return {name: value for name, value in given.items() if value not in (None, "")}

    def cooldown_given(self) -> int:
        """The cooldown as it was typed; 0 where it cannot be read."""
        return whole_in(str(self.data.get("cooldown_minutes", "")), 5) or 0

    def wanted(self) -> Wanted:
        """What the (valid) form asks for."""
        data = self.cleaned_data
        return Wanted(
            name=data["name"], on=self.on, condition=self.condition_given(), runs=data["runs"], to_page=data["to_page"],
            channels=data["channels"], critical=data["critical"], cooldown_minutes=data["cooldown_minutes"] or 0,
        )  # fmt: skip

    def condition_fields(self) -> list[forms.BoundField]:
        """The fields of the condition, in order."""
        return [self[name] for name in self.own_fields]


def _number(label: str, help_text: str = "", **options: Any) -> forms.CharField:
    """A field whose text the condition's model reads, so that it is wrong in one place only."""
    widget = forms.TextInput(attrs=dict(NUMBER))
    return forms.CharField(label=label, help_text=help_text, max_length=40, widget=widget, **options)


class StateForm(RuleForm):
    """A run starts or ends."""

    on, own_fields = "state", ("states",)
    states = forms.MultipleChoiceField(
        label="When a run has", choices=[(s, s) for s in STATES], widget=forms.CheckboxSelectMultiple
    )


class MetricForm(RuleForm):
    """A metric crosses a threshold."""

    on, own_fields = "metric", ("metric", "comparison", "threshold", "in_a_row")
    metric = forms.CharField(
        max_length=250,
        help_text="Such as train/entropy.",
        widget=forms.TextInput(attrs={"list": "metrics", "autocomplete": "off", "spellcheck": "false"}),
    )
    comparison = forms.ChoiceField(label="Is", choices=[*COMPARISONS.items()])
    threshold = _number("Threshold", "A rate is from 0 to 1.")
    in_a_row = forms.CharField(
        label="Times in a row", initial="3", max_length=10,
        widget=forms.TextInput(attrs=dict(WHOLE)),
    )  # fmt: skip


class AlarmForm(RuleForm):
    """An alarm is raised."""

    on, own_fields = "alarm", ("level", "rule")
    level = forms.ChoiceField(
        label="At least", choices=[("warning", "warning"), ("critical", "critical")], initial="warning"
    )
    rule = forms.ChoiceField(label="Which alarm", required=False)

    def __init__(self, data: Any = None, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.fields["rule"].choices = [("", "any"), *((name, name) for name in sorted(rules_by_name()))]  # type: ignore[attr-defined]


class FitForm(RuleForm):
    """A forecast says something."""

    on, own_fields = "fit", ("event", "value", "certain", "in_a_row")
    event = forms.ChoiceField(
        label="When",
        choices=[
            ("identified", "the forecast ceiling is known"),
            ("ceiling_below", "the forecast ceiling is below"),
            ("ceiling_above", "the forecast ceiling is above"),
            ("left_band", "the actual left the band"),
            ("stored", "there is a new one, whatever it says"),
        ],
    )
    value = _number("Ceiling", "For below and above: a rate such as 0.6.", required=False)
    certain = forms.BooleanField(required=False, label="Only with its whole interval")
    in_a_row = forms.CharField(
        label="In a row", initial="2", max_length=10, widget=forms.TextInput(attrs=dict(WHOLE)),
        help_text="Fits, or for the band evaluations, one after the other: one may be chance.",
    )  # fmt: skip


class BudgetForm(RuleForm):
    """The budget is being spent."""

    on, own_fields = "budget", ("percent",)
    percent = _number(
        "Percent of the budget", "When a run has spent this much of its device-hours.", initial="80"
    )


class OutcomeForm(RuleForm):
    """A prediction is scored."""

    on, own_fields = "outcome", ("scored",)
    scored = forms.ChoiceField(
        label="When what came lies",
        choices=[
            ("any", "anywhere"),
            ("inside", "inside the claimed interval"),
            ("outside", "outside the claimed interval"),
        ],
        initial="any",
    )


class PredictionForm(RuleForm):
    """What predictions tell; there is one for each event already, so that only its ways change."""

    on, own_fields = "prediction", ("event",)
    event = forms.CharField(widget=forms.HiddenInput, max_length=40)


FORMS: dict[str, type[RuleForm]] = {
    form.on: form
    for form in (StateForm, MetricForm, AlarmForm, FitForm, BudgetForm, OutcomeForm, PredictionForm)
}


class QuietForm(NamingForm):
    """Quiet hours; both times empty: none."""

    quiet_from = forms.TimeField(
        required=False, label="From", widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    )
    quiet_to = forms.TimeField(
        required=False, label="To", widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
        help_text="Not after the start: on the next day.",
    )  # fmt: skip
    quiet_days = forms.TypedMultipleChoiceField(
        required=False, coerce=int, label="Beginning on", choices=list(enumerate(DAY_NAMES)),
        widget=forms.CheckboxSelectMultiple, initial=list(range(7)),
    )  # fmt: skip
    zone = forms.CharField(
        max_length=64, initial="UTC", label="Zone", help_text="Such as Europe/Berlin; its clocks count.",
        widget=forms.TextInput(attrs={"list": "zones", "autocomplete": "off", "spellcheck": "false"}),
    )  # fmt: skip

    def quiet(self) -> dict[str, Any]:
        """The (valid) form's quiet hours, for the services."""
        return {name: self.cleaned_data[name] for name in ("zone", "quiet_from", "quiet_to", "quiet_days")}

    @property
    def zones(self) -> list[str]:
        """What the field of the zone offers."""
        return hours.zones()


def quiet_initial(stored: QuietHours) -> dict[str, Any]:
    """Stored quiet hours as the form shows them."""
    days = stored.quiet_days or list(range(7))
    return {
        "zone": stored.zone,
        "quiet_from": stored.quiet_from,
        "quiet_to": stored.quiet_to,
        "quiet_days": days,
    }


class ChannelForm(QuietForm):
    """A channel, new or (`old`) with the address that it has."""

    name = forms.CharField(max_length=60)
    address = forms.CharField(max_length=2000, required=False)
    critical_through = forms.BooleanField(required=False, label="Critical alerts come through at once")
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)
    field_order = ("name", "address", "quiet_from", "quiet_to", "zone", "quiet_days", "critical_through")

    def __init__(
        self, data: Any = None, *, kind: str, shared: bool, old: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(data, **kwargs)
        if old or (kind == "mail" and not shared):
            del self.fields["address"]
            return
        field = self.fields["address"]
        field.required = True
        field.label = "Mail address" if kind == "mail" else "Address of the hook"
        field.widget.attrs["autocomplete"] = "off"
        if kind != "mail":
            field.widget.attrs |= {"placeholder": "https://", "spellcheck": "false"}
            field.help_text = (
                "Starts with https://, on the public internet. It is stored encrypted and not shown again."
            )

    def channel_fields(self) -> dict[str, Any]:
        """The (valid) form, for the services."""
        data = self.cleaned_data
        quiet = {**self.quiet(), "critical_through": data["critical_through"]}
        found = {"name": data["name"], "quiet": quiet}
        if "address" in self.fields:
            found["address"] = data["address"]
        return found

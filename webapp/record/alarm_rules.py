"""The rules of the alarms: pure data. What is judged is a metric's name, so that any trainer's records count.

Defaults are chosen to stay quiet in a healthy run and are settings (`webapp.record.alarm_rules`);
docs/alarms.md is their table.

The rules in force: the defaults with what the setting HEADROOM_ALARMS changes.

It names a YAML or JSON file, or is JSON itself: a rule's name -> "off", or the fields that differ among threshold,
level, records and early.

Django system check: a wrong HEADROOM_ALARMS is said at start, naming the rule and the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from training.plain_yaml import LOADER

ANY_METRIC = "*"
_TRUNCATION = "Answers are cut off at the length limit; 10 to 15 % of them came before instability."
_TRUNCATION_LOOK = "Look at the response length and the room for thinking, and at the length control."
_MISMATCH = "Generator and trainer disagree about the same tokens; with the same weights the gap should be 0."
_MISMATCH_LOOK = "Look at the precision of the LM heads, the dtypes, and whether new weights arrive."
_OFF_POLICY_LOOK = "Look at the staleness, the learning rate and the gap between generator and trainer."
_GRADIENT = "The gradient has grown far beyond what it was; the loss may be about to diverge."


class Level(StrEnum):
    """How bad: a warning asks to look, a critical alarm says that the run is probably lost as it goes on."""

    WARNING = "warning"
    CRITICAL = "critical"


class Comparison(StrEnum):
    """When a value is beyond a threshold. EARLY: the threshold is a factor of the run's own early median."""

    ABOVE = "above"  # at or above
    BELOW = "below"  # at or below
    ABOVE_EARLY = "above early"
    BELOW_EARLY = "below early"
    NOT_FINITE = "not finite"  # reported as null; has no threshold

    @property
    def relative(self) -> bool:
        """Whether the threshold is a factor of the early median."""
        return self in (Comparison.ABOVE_EARLY, Comparison.BELOW_EARLY)

    @property
    def upwards(self) -> bool:
        """Whether greater values are worse."""
        return self in (Comparison.ABOVE, Comparison.ABOVE_EARLY)


@dataclass(frozen=True)
class Rule:
    """One rule. `metric`: a name, or a pattern with `*`, of whose series the worst counts. `records`: values in a row
    that must be beyond; `early`: values that make the early median."""

    name: str
    metric: str
    title: str
    comparison: Comparison
    threshold: float | None
    level: Level
    meaning: str
    look_at: str
    records: int = 3
    early: int = 20


_W, _C = Level.WARNING, Level.CRITICAL
_ABOVE, _BELOW = Comparison.ABOVE, Comparison.BELOW


DEFAULTS = (
    # A healthy run stays under 5 % for more than 90 % of its training, and single batches reach 12 %.
    Rule(
        "truncation_rate", "train/truncation_rate", "Truncation rate", _ABOVE, 0.10, _W, _TRUNCATION, _TRUNCATION_LOOK
    ),
    Rule(
        "truncation_rate_critical", "train/truncation_rate", "Truncation rate", _ABOVE, 0.15, _C, _TRUNCATION,
        _TRUNCATION_LOOK,
    ),
    # Evaluations are many answers each: two in a row are no chance.
    Rule(
        "eval_truncation_rate", "eval/truncation_rate", "Truncation rate of evaluations", _ABOVE, 0.10, _W,
        _TRUNCATION, _TRUNCATION_LOOK, records=2,
    ),
    Rule(
        "eval_truncation_rate_critical", "eval/truncation_rate", "Truncation rate of evaluations", _ABOVE, 0.15, _C,
        _TRUNCATION, _TRUNCATION_LOOK, records=2,
    ),
    # Largest of millions of tokens: 60 was seen once in a healthy run, 25 often. 1e6 is no policy's doing.
    Rule(
        "ratio_max", "train/ratio_max", "Largest ratio", _ABOVE, 100.0, _W,
        "A token is 100 times more probable than when it was generated, batch after batch.", _OFF_POLICY_LOOK,
    ),
    Rule(
        "ratio_max_critical", "train/ratio_max", "Largest ratio", _ABOVE, 1e6, _C,
        "The ratios have run away: the trainer no longer trains on its own samples.", _OFF_POLICY_LOOK,
    ),
    Rule(
        "ratio_min", "train/ratio_min", "Smallest ratio", _BELOW, 1e-4, _W,
        "A token is 10,000 times less probable than when it was generated, batch after batch.", _OFF_POLICY_LOOK,
    ),
    # GSPO clips some 15 % of its tokens by design; others stay at 10 %.
    Rule(
        "ratio_clip_fraction", "train/ratio_clip_fraction", "Clipped ratios", _ABOVE, 0.3, _W,
        "Much of the batch is clipped and teaches nothing.", _OFF_POLICY_LOOK, records=5,
    ),
    Rule(
        "ratio_clip_fraction_critical", "train/ratio_clip_fraction", "Clipped ratios", _ABOVE, 0.6, _C,
        "Most of the batch is clipped and teaches nothing.", _OFF_POLICY_LOOK, records=5,
    ),
    # 0.001 with float32 heads, 0.01 to 0.02 with bfloat16; our trainer refuses to start at 0.1.
    Rule(
        "mismatch_logp_mean", "train/mismatch_logp_mean", "Log-prob gap", _ABOVE, 0.05, _W, _MISMATCH, _MISMATCH_LOOK,
        records=2,
    ),
    Rule(
        "mismatch_logp_mean_critical", "train/mismatch_logp_mean", "Log-prob gap", _ABOVE, 0.1, _C, _MISMATCH,
        _MISMATCH_LOOK, records=1,
    ),
    # One token in thousands: 0.8 was seen in healthy runs. 3 nats are a factor of 20.
    Rule(
        "mismatch_logp_max", "train/mismatch_logp_max", "Log-prob gap, max", _ABOVE, 3.0, _W, _MISMATCH,
        _MISMATCH_LOOK,
    ),
    # Entropy falls steadily in every run and says nothing about the ceiling: only its end is an alarm.
    Rule(
        "entropy", "train/entropy", "Entropy", _BELOW, 0.005, _W,
        "The policy has collapsed: all samples of a prompt are nearly the same, so nothing more is explored.",
        "Look at the effective batch, the clip range and the sampling temperature.", records=5,
    ),
    # To the generating policy: 0.15 was seen once in a healthy off-policy run.
    Rule(
        "kl", "train/kl", "KL", _ABOVE, 0.2, _W,
        "The policy is far from the one that generated the samples.", _OFF_POLICY_LOOK,
    ),
    Rule(
        "kl_critical", "train/kl", "KL", _ABOVE, 1.0, _C,
        "The policy has left the one that generated the samples.", _OFF_POLICY_LOOK,
    ),
    # To the model that the run started from; long training without a penalty reaches some tenths.
    Rule(
        "kl_reference", "train/kl_reference", "KL to the start", _ABOVE, 1.0, _W,
        "The policy is far from the model that the run started from.",
        "Look at the KL coefficient and at samples: has it lost what it could do?", records=5,
    ),
    Rule(
        "kl_reference_critical", "train/kl_reference", "KL to the start", _ABOVE, 10.0, _C,
        "The policy has left the model that the run started from.",
        "Look at the KL coefficient and at samples: has it lost what it could do?", records=5,
    ),
    # Single batches reach 20 times the early median where few prompts still teach; five in a row do not.
    Rule(
        "grad_norm", "train/grad_norm", "Gradient norm", Comparison.ABOVE_EARLY, 10.0, _W, _GRADIENT,
        "Look at the learning rate, the largest ratio and the effective batch.", records=5,
    ),
    Rule(
        "grad_norm_critical", "train/grad_norm", "Gradient norm", Comparison.ABOVE_EARLY, 100.0, _C, _GRADIENT,
        "Look at the learning rate, the largest ratio and the effective batch.",
    ),
    # Growth is often how thinking emerges, so no more than a warning; 1.7 times is usual.
    Rule(
        "response_length_growth", "train/response_length", "Response length", Comparison.ABOVE_EARLY, 2.0, _W,
        "Answers are twice as long as at the start: dearer, and soon cut off.",
        "Look at the truncation rate, and at samples: does the added length help?", records=10,
    ),
    Rule(
        "response_length_collapse", "train/response_length", "Response length", Comparison.BELOW_EARLY, 0.33, _W,
        "Answers are a third as long as at the start: the policy may have stopped to think.",
        "Look at samples, at the reward and at the length penalty.", records=10,
    ),
    # It shrinks as prompts are solved, to a quarter in healthy runs near their ceiling; single batches are empty.
    Rule(
        "effective_batch", "train/effective_batch", "Effective batch", Comparison.BELOW_EARLY, 0.1, _W,
        "Hardly any sample of the batch teaches: most prompts are always or never solved.",
        "Look at the curriculum, at harder prompts, and at zero-variance prompts.", records=10,
    ),
    Rule(
        "effective_batch_empty", "train/effective_batch", "Effective batch", _BELOW, 0.0, _C,
        "No sample of the batch teaches, batch after batch: training stands still.",
        "Look at the pass rate: are all prompts solved, or none?", records=10,
    ),
    # Depth 8 is where deeper began to cost performance; twice that is no setting but an accident.
    Rule(
        "staleness_max", "train/staleness_max", "Staleness, max", _ABOVE, 16.0, _W,
        "Samples are many updates old when they are trained on.",
        "Look at the off-policy depth and at whether the generator keeps up.",
    ),
    Rule(
        "verifier_failure_rate", "train/verifier_failure_rate", "Verifier failures", _ABOVE, 0.01, _W,
        "The verifier gives no verdict on some answers; their reward is a guess.", "Look at the log of the verifier.",
    ),
    Rule(
        "verifier_failure_rate_critical", "train/verifier_failure_rate", "Verifier failures", _ABOVE, 0.10, _C,
        "The verifier fails for much of the batch; the reward is mostly noise.", "Look at the log of the verifier.",
    ),
    # What fails in an evaluation lowers the curve itself.
    Rule(
        "eval_verifier_failure_rate", "eval/verifier_failure_rate", "Verifier failures of evaluations", _ABOVE, 0.01,
        _W, "The verifier gives no verdict on some held-out answers; the curve is too low.",
        "Look at the log of the verifier.", records=2,
    ),
    # Some losses (GSPO among them) diverged in the middle of training: then the start's skill is lost, too.
    Rule(
        "pass_rate_collapse", "eval/pass_rate", "Held-out pass rate", Comparison.BELOW_EARLY, 0.5, _C,
        "The pass rate is half of what it was at the start: the run has probably diverged.",
        "Look at the gradient norm, the ratios and the truncation rate before it fell.", records=2, early=3,
    ),
    # Of machines a value comes every 15 s (`headroom.system`). Between batches GPUs idle for minutes in healthy runs.
    Rule(
        "gpu_idle", "system/*/host/gpu_busy_fraction", "Use of the GPUs", _BELOW, 0.05, _W,
        "The GPUs of a machine have done next to nothing for ten minutes.",
        "Look at the timeline: what does the run wait for?", records=40,
    ),
    # Engines take nine tenths at once, by their setting.
    Rule(
        "gpu_memory", "system/*/host/gpu_memory_fraction", "GPU memory", _ABOVE, 0.98, _W,
        "The memory of a GPU is nearly full: the next longer batch may end the run.",
        "Look at the batch, at the lengths, and at `python -m training memory`.", records=4,
    ),
    Rule(
        "host_memory", "system/*/host/memory_fraction", "Memory of the host", _ABOVE, 0.95, _W,
        "A machine is about to run out of memory, and then ends a process of the run.",
        "Look at which part grows, and at what else runs there.", records=4,
    ),
    Rule(
        "not_finite", ANY_METRIC, "Not a finite number", Comparison.NOT_FINITE, None, _C,
        "A value was reported as NaN or infinite.", "Look at the loss, the gradient norm and the log.", records=1,
    ),
)  # fmt: skip


class AlarmSettingsError(ValueError):
    """HEADROOM_ALARMS cannot be used; the message names the rule and says why."""


def rules() -> tuple[Rule, ...]:
    """The rules in force. Raises AlarmSettingsError."""
    return _rules(settings.HEADROOM_ALARMS)


def rules_by_name() -> dict[str, Rule]:
    """The rules in force by name. Raises AlarmSettingsError."""
    return {rule.name: rule for rule in rules()}


def watched_metrics() -> list[str]:
    """Every metric that a rule names."""
    return sorted({rule.metric for rule in rules()} - {ANY_METRIC})


@lru_cache(maxsize=4)
def _rules(setting: str) -> tuple[Rule, ...]:
    return _overridden(_read(setting)) if setting.strip() else DEFAULTS


def _read(setting: str) -> Any:
    """What the setting says: inline JSON starts with a brace, everything else is a file's name."""
    inline = setting.lstrip().startswith("{")
    try:
        text = setting if inline else Path(setting).read_text()
        return yaml.load(text, Loader=LOADER)  # nosec B506  # a safe one; JSON is YAML
    except (OSError, UnicodeDecodeError) as error:
        raise AlarmSettingsError(f"{setting} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise AlarmSettingsError(f"neither YAML nor JSON: {str(error).splitlines()[0]}") from None


def _overridden(changes: Any) -> tuple[Rule, ...]:
    """The defaults with these changes. Raises AlarmSettingsError."""
    if changes is None:
        return DEFAULTS
    if not isinstance(changes, Mapping):
        raise AlarmSettingsError("must be a mapping from rules' names to what differs")
    if unknown := [str(name) for name in changes if name not in {rule.name for rule in DEFAULTS}]:
        raise AlarmSettingsError(f"{unknown[0]}: there is no rule of this name; see docs/alarms.md")
    changed = [_changed(rule, changes[rule.name]) if rule.name in changes else rule for rule in DEFAULTS]
    return tuple(rule for rule in changed if rule is not None)


def _changed(rule: Rule, change: Any) -> Rule | None:
    if change is False or change == "off":  # YAML reads a bare off as False
        return None
    if not isinstance(change, Mapping):
        raise AlarmSettingsError(f'{rule.name}: must be "off" or a mapping')
    return replace(rule, **{str(key): _checked(rule, str(key), value) for key, value in change.items()})


def _checked(rule: Rule, key: str, value: Any) -> Any:
    """The value of one field as the rule holds it."""
    if key == "level":
        if value not in [level.value for level in Level]:
            raise AlarmSettingsError(f"{rule.name}: level must be warning or critical, not {value!r}")
        return Level(value)
    if key in ("records", "early"):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise AlarmSettingsError(f"{rule.name}: {key} must be a whole number from 1 on, not {value!r}")
        return value
    if key != "threshold":
        raise AlarmSettingsError(f"{rule.name}: {key} is not one of threshold, level, records, early")
    return _threshold(rule, value)


def _threshold(rule: Rule, value: Any) -> float:
    if rule.comparison is Comparison.NOT_FINITE:
        raise AlarmSettingsError(f"{rule.name}: has no threshold")
    if isinstance(value, bool) or not isinstance(value, int | float) or value - value != 0:
        raise AlarmSettingsError(f"{rule.name}: threshold must be a finite number, not {value!r}")
    if rule.comparison.relative and value <= 0:
        raise AlarmSettingsError(
            f"{rule.name}: threshold is a factor of the early median and must be above 0"
        )
    return float(value)


TAG = "headroom"


@register(TAG)
def alarm_settings(**_: Any) -> list[CheckMessage]:
    """An error where the rules' overrides cannot be used."""
    try:
        rules()
    except AlarmSettingsError as error:
        return [
            Error(f"HEADROOM_ALARMS: {error}", hint="The rules are in docs/alarms.md.", id="headroom.E001")
        ]
    return []

"""The setting HEADROOM_ALARMS."""

import json

import pytest
from django.core import checks

from webapp.record.alarm_rules import (
    DEFAULTS,
    AlarmSettingsError,
    rules,
    rules_by_name,
    watched_metrics,
)


def test_nothing_set_is_the_defaults(settings):
    settings.HEADROOM_ALARMS = ""

    assert rules() == DEFAULTS
    assert "train/truncation_rate" in watched_metrics()
    assert "*" not in watched_metrics()


def test_json_changes_what_it_names(settings):
    settings.HEADROOM_ALARMS = json.dumps(
        {"entropy": {"threshold": 0.1, "level": "critical", "records": 2}, "kl": "off", "not_finite": {}}
    )

    found = rules_by_name()
    assert (found["entropy"].threshold, found["entropy"].level, found["entropy"].records) == (
        0.1,
        "critical",
        2,
    )
    assert "kl" not in found
    assert len(found) == len(DEFAULTS) - 1


@pytest.mark.parametrize("text", ["grad_norm: off\n", 'grad_norm: "off"\n', '{"grad_norm": "off"}'])
def test_a_file_is_yaml_or_json(settings, tmp_path, text):
    path = tmp_path / "alarms.yaml"
    path.write_text(text)
    settings.HEADROOM_ALARMS = str(path)

    assert "grad_norm" not in rules_by_name()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"no_such_rule": "off"}, "no_such_rule: there is no rule of this name"),
        ({"entropy": {"threshold": "low"}}, "entropy: threshold must be a finite number, not 'low'"),
        ({"entropy": {"threshold": True}}, "entropy: threshold must be"),
        ({"entropy": {"level": "fatal"}}, "entropy: level must be warning or critical"),
        ({"entropy": {"records": 0}}, "entropy: records must be a whole number from 1 on"),
        ({"entropy": {"limit": 1}}, "entropy: limit is not one of"),
        ({"entropy": 0.1}, 'entropy: must be "off" or a mapping'),
        ({"not_finite": {"threshold": 1}}, "not_finite: has no threshold"),
        ({"grad_norm": {"threshold": -1}}, "grad_norm: threshold is a factor"),
    ],
)
def test_the_system_check_names_the_rule_and_the_reason(settings, setting, words):
    settings.HEADROOM_ALARMS = json.dumps(setting)

    errors = checks.run_checks(tags=["headroom"])

    assert [error.id for error in errors] == ["headroom.E001"]
    assert words in errors[0].msg


@pytest.mark.parametrize("setting", ["/no/such/file.yaml", "{not json", "{]"])
def test_what_cannot_be_read_is_said(settings, setting):
    settings.HEADROOM_ALARMS = setting

    with pytest.raises(AlarmSettingsError):
        rules()
    assert checks.run_checks(tags=["headroom"])


def test_a_file_that_is_no_mapping_is_said(settings, tmp_path):
    (tmp_path / "a.yaml").write_text("- kl\n")
    settings.HEADROOM_ALARMS = str(tmp_path / "a.yaml")

    with pytest.raises(AlarmSettingsError, match="mapping"):
        rules()

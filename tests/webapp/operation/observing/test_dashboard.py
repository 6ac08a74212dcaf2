"""What dashboard and alert rules ask for exists, down to the labels."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.webapp.record.health.test_status import seen  # noqa: F401 (fixture)
from tests.worker.conftest import broker, with_broker  # noqa: F401 (fixtures)
from webapp.base.metrics import COUNTED
from webapp.operation.observing.exposition import State

DEPLOY = Path(__file__).resolve().parents[4] / "deploy"
OTHERS = {"up": {"job", "instance"}}  # Prometheus' own
LABELLED_BY_RUNS = {
    "headroom_runs": {"state"},
    "headroom_runs_by_fit": {"status"},
}  # without runs they are empty
SELECTED = re.compile(r"\b(headroom_\w+|up)\b(?:\{([^}]*)\})?")
BY = re.compile(r"\bby \(([^)]*)\)")


def expressions():
    dashboard = json.loads((DEPLOY / "grafana/dashboards/headroom.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for group in yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


@pytest.fixture
def offered(seen, with_broker, db):  # noqa: F811
    """Name of each sample -> its labels, of everything that /metrics can say."""
    found = {name: set(labels) for name, labels in (OTHERS | LABELLED_BY_RUNS).items()}
    for metric in COUNTED.collect():
        family = COUNTED._names_to_collectors[metric.name]
        labels = set(family._labelnames)
        if metric.type == "counter":
            found[f"{metric.name}_total"] = labels
        else:
            assert metric.type == "histogram"
            found |= {f"{metric.name}_bucket": labels | {"le"}}
            found |= {f"{metric.name}_{end}": labels for end in ("sum", "count")}
    for metric in State().collect():
        for sample in metric.samples:
            found[sample.name] = set(sample.labels)
    return found


def test_every_query_asks_for_what_there_is(offered):
    asked = list(expressions())
    assert len(asked) > 40

    for title, expression in asked:
        names = SELECTED.findall(expression)
        assert names, title
        for name, selector in names:
            assert name in offered, f"{title}: there is no {name}"
            for label in re.findall(r"(\w+)\s*[=!]", selector):
                assert label in offered[name], f"{title}: {name} has no label {label}"
        for labels in BY.findall(expression):
            for label in (each.strip() for each in labels.split(",")):
                assert all(label in offered[name] for name, _ in names), f"{title}: by {label}"
        assert expression.count("(") == expression.count(")"), title
        assert not re.search(r"\w+_total(\{[^}]*\})?(?!\[|\{|\w)", expression), (
            f"{title}: a counter without rate"
        )


def test_every_metric_is_on_the_dashboard(offered):
    shown = {name for _, expression in expressions() for name, _ in SELECTED.findall(expression)}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}

    missing = {name for name in offered if re.sub(r"_(bucket|sum|count)$", "", name) not in families}

    assert missing == set()


def test_every_metric_is_in_the_docs(offered):
    said = set(re.findall(r"`(headroom_\w+)`", (DEPLOY.parent / "docs/observability.md").read_text()))

    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in offered} - set(OTHERS) == said


def test_names_follow_the_conventions(offered):
    units = ("_seconds", "_bytes")
    for name in offered:
        assert re.fullmatch(r"up|headroom_[a-z][a-z_]*[a-z]", name)
        base = re.sub(r"_(bucket|sum|count|total)$", "", name)
        for unit in ("second", "byte", "millisecond", "minute"):
            if re.search(rf"_{unit}s?(_|$)", base):
                assert base.endswith(units), name


def test_panels_do_not_lie_on_each_other():
    panels = json.loads((DEPLOY / "grafana/dashboards/headroom.json").read_text())["panels"]
    taken = set()
    for panel in panels:
        box = panel["gridPos"]
        cells = {
            (x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])
        }
        assert not cells & taken and box["x"] + box["w"] <= 24, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_scrape_configuration_names_the_rules_and_a_token():
    said = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())

    assert [(DEPLOY / "prometheus" / name).exists() for name in said["rule_files"]] == [True]
    for job in said["scrape_configs"]:
        assert job["authorization"]["credentials_file"] and "metrics_path" not in job
    for name in ("dashboards/headroom.yaml", "datasources/prometheus.yaml"):
        assert yaml.safe_load((DEPLOY / "grafana/provisioning" / name).read_text())["apiVersion"] == 1

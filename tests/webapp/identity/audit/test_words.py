"""What the audit log says of an event: every verb has its words, and names the kind of thing that it is about."""

import ast
import re
from pathlib import Path

import pytest

from tests.members import member
from webapp.identity.accounts.services import default_project
from webapp.identity.audit.models import Event
from webapp.identity.audit.selectors import WORDS, EventFilter, narrowed, words_of
from webapp.identity.audit.services import record

WEBAPP = Path(__file__).resolve().parents[4] / "webapp"
TELLERS = {"record", "record_run", "record_prediction", "_record", "record_account", "_told", "tell"}
VERB = re.compile(r"[a-z_]+\.[a-z_]+")


def verbs_written():
    """The verbs that stand as text in a call that tells the audit log, or in a variable named verb."""
    found = set()
    for path in WEBAPP.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", getattr(node.func, "attr", "")) in TELLERS
            ):
                texts = node.args[:1]
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "verb":
                texts = [node.value]
            else:
                continue
            inner = [part for text in texts for part in ast.walk(text)]
            said = {
                part.value for part in inner if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
            found |= {text for text in said if text in WORDS or VERB.fullmatch(text)}
    return {verb for verb in found if not verb.endswith("_")}  # "alert_rule.turned_on" is put together


def test_the_verbs_in_the_code_have_words():
    found = verbs_written()

    assert len(found) > 40
    assert found - set(WORDS) == set()
    assert all(VERB.fullmatch(verb) for verb in WORDS)


@pytest.mark.django_db
def test_a_kind_finds_all_that_happened_to_things_of_it_early_verbs_too():
    user, project = member("ada"), default_project()
    for verb in ("report.published", "shared"):
        record(verb, actor=user, project=project, kind="report", key="abc", name="Where it ends")
    record("run.launched", actor=user, project=project, kind="run", key="xyz", name="reporter")

    found = narrowed(Event.objects.filter(project=project), EventFilter(verb="report"))

    assert {event.verb for event in found} == {"report.published", "shared"}
    assert words_of("shared", "report") == "report: shared:"

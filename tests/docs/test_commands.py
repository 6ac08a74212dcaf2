"""Every command in README.md, CONTRIBUTING.md, CHANGELOG.md and docs/: it exists, and somebody runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connection

from tests.docs.commands import Command, logical_lines, of_blocks, of_sentences
from tests.docs.elsewhere import API_PAGE, ELSEWHERE, NOT_RUN, RUN
from tests.docs.pages import PAGES, ROOT, fences, name_of
from tests.docs.syntax import problem
from tests.members import member
from tests.webapp.interfaces.pages.conftest import model_folder  # noqa: F401 (fixture)
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.permissions import role_in
from webapp.identity.accounts.services import default_project
from webapp.record.runs.models import Run

BLOCKS = of_blocks()
RUN_PAGES = sorted({command.page for command in BLOCKS if command.text in RUN})
LANGUAGES = {"sh", "python", "yaml", "json", "js", "text"}
SHELL = re.compile(r"^(make|\.venv/bin/python|python3?|curl|docker|kubectl|pip|export) ", re.MULTILINE)


def test_every_block_says_what_it_is_and_commands_stand_in_blocks_of_shell():
    every = [fence for page in PAGES for fence in fences(page)]

    assert [fence.where for fence in every if fence.language not in LANGUAGES] == []
    assert [fence.where for fence in every if fence.language == "text" and SHELL.search(fence.text)] == []


def test_every_command_exists_with_its_options():
    found = [
        f"{command.where} -> {problem(command)}" for command in [*BLOCKS, *of_sentences()] if problem(command)
    ]

    assert len(BLOCKS) > 80 and len(of_sentences()) > 60
    assert found == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python manage.py nothing", "no command nothing"),
        ("python manage.py up --no-such", "--no-such"),
        ("python -m scaling fit a.csv --no-such", "--no-such"),
        ("python -m headroom import", "required"),
        ("python -m benchmarks.bench_nothing", "there is no"),
        ("make nothing", "nothing"),
        ("make test ARG=1", "ARG"),
        ("export HEADROOM_NOTHING=1", "HEADROOM_NOTHING"),
        ("frobnicate --all", "no program"),
    ],
)
def test_a_command_that_is_stale_is_found(text, words):
    assert words in problem(Command("docs/nowhere.md", 1, text, whole=True))


def test_an_option_in_a_sentence_is_looked_at_too():
    assert (
        problem(
            Command("docs/nowhere.md", 1, "python manage.py create_token USER --scope launch", whole=False)
        )
        == ""
    )
    assert problem(Command("docs/nowhere.md", 1, "python manage.py create_token USER --scopes", whole=False))


def test_a_line_goes_on_after_a_backslash_and_ends_before_a_comment():
    lines = list(logical_lines("curl \\\n  -s x  # asks\n\n# nothing\nmake up\n", 5))

    assert lines == [(5, "curl -s x"), (9, "make up")]


def test_every_line_of_shell_is_run_by_somebody_or_says_why_not():
    tables = (RUN, ELSEWHERE, NOT_RUN)
    lines = [
        command for command in BLOCKS if command.page != API_PAGE and not command.text.startswith("export ")
    ]

    assert [command.where for command in lines if sum(command.text in table for table in tables) != 1] == []


def test_the_tables_have_no_line_that_no_page_has():
    present = {command.text for command in BLOCKS}

    assert {text for table in (RUN, ELSEWHERE, NOT_RUN) for text in table} - present == set()


@pytest.mark.parametrize(("test", "word"), sorted(set(ELSEWHERE.values())))
def test_the_test_that_runs_a_command_is_there(test, word):
    file, _, name = test.partition("::")
    text = (ROOT / file).read_text()

    assert re.search(rf"^def {name}\(" if name else r"^def test_", text, re.MULTILINE)
    assert word in text


@pytest.fixture
def site(transactional_db, model_folder, tmp_path, headroom_home) -> dict[str, str]:  # noqa: F811
    """The environment of somebody who sits in a checkout: two accounts, the shipped recipes, a model; no broker."""
    for name in ("ada", "grace"):
        member(name)
    (tmp_path / "manage.py").symlink_to(ROOT / "manage.py")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "mine.jsonl").write_text(blocks("docs/howto/task.md", "json")[0])
    place = urlsplit(os.environ["DATABASE_URL"])
    return {
        **os.environ,
        "DATABASE_URL": urlunsplit(place._replace(path=f"/{connection.settings_dict['NAME']}")),
        "HEADROOM_HOME": str(headroom_home),
        "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }


def blocks(page: str, language: str) -> list[str]:
    return [fence.text for fence in fences(ROOT / page) if fence.language == language]


@pytest.mark.parametrize("page", RUN_PAGES)
def test_the_lines_of_a_page_run_in_their_order(site, tmp_path, page):
    script = "\n".join(command.text for command in BLOCKS if command.page == page and command.text in RUN)

    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env=site,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert OUTCOMES[page](tmp_path, done.stdout)


def budget(folder: Path, said: str) -> bool:
    return (folder / "a.csv").read_text().startswith("compute,reward\n") and Run.objects.count() == 6


def tutorial(folder: Path, said: str) -> bool:
    from django.contrib.auth import get_user_model

    (run,) = Run.objects.all()
    grace = get_user_model().objects.get(username="grace")
    roles = role_in(grace, default_project()) == Role.REVIEWER
    return roles and run.budget_hours == 0.33 and "from 50 % of the compute, predicted" in said


OUTCOMES = {
    "docs/howto/budget.md": budget,
    "docs/howto/task.md": lambda folder, said: (folder / "var/data/mine.jsonl").is_file(),
    "docs/packaging.md": lambda folder, said: said.strip() == str(ROOT),
    "docs/teams.md": lambda folder, said: "ada is reviewer in alignment" in said,
    "docs/tutorial.md": tutorial,
}


def test_each_page_whose_lines_are_run_says_what_comes_out():
    assert set(OUTCOMES) == set(RUN_PAGES)
    assert {name_of(page) for page in PAGES} >= set(RUN_PAGES)

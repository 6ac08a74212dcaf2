"""Forms carry the sign of their session, cookies are kept close, nobody has a default password, and a launch carries
what the recipe's schema knows and nothing else."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.test import Client
from pydantic import BaseModel

from tests.members import member
from tests.webapp.permissions.tables import ACCOUNT, IN_PROJECT, PUBLIC
from tests.webapp.permissions.test_pages import address
from tests.webapp.permissions.world import make_world
from training.schema import Recipe
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.services import create_token, first_account
from webapp.interfaces.api.schemas import LaunchBody
from webapp.record.recipes.services import add_revision
from webapp.record.runs.models import Run

ROOT = Path(django_settings.BASE_DIR)
WRITES = sorted({name for name, need in IN_PROJECT.items() if need.write is not None} | ACCOUNT | PUBLIC)
LAUNCH = {
    "recipe": "tiny-scalerl",
    "task": "arithmetic",
    "model": "tiny-arithmetic",
    "seed": 1,
    "budget_hours": 0.5,
}


# --- forms ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_every_post_without_the_sign_of_the_session_is_refused(model_folder):
    world = make_world("admin")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.user)

    told = {name: browser.post(address(name, world), {}) for name in WRITES}

    assert {name: answer.status_code for name, answer in told.items()} == dict.fromkeys(WRITES, 403)
    for name, answer in told.items():
        assert "did not carry the sign of this session" in answer.content.decode(), name


@pytest.mark.django_db
def test_with_the_sign_it_goes_through(model_folder):
    world = make_world("admin")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.user)
    sign = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get("/tokens").content.decode())[1]

    made = browser.post("/tokens", {"scope": "read", "csrfmiddlewaretoken": sign})

    assert made.status_code == 200
    assert b"hr_" in made.content


@pytest.mark.django_db
def test_a_session_alone_opens_nothing_of_the_api(model_folder):
    world = make_world("admin")
    browser = Client()
    browser.force_login(world.user)

    launched = browser.post("/api/v1/runs", json.dumps(LAUNCH), content_type="application/json")

    assert (launched.status_code, browser.get("/api/v1/runs").status_code) == (401, 401)
    assert not Run.objects.exists()


# --- cookies --------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_sessions_cookie_is_kept_from_scripts_and_other_sites():
    member("ada", password="a-long-password")

    cookie = (
        Client().post("/sign-in", {"username": "ada", "password": "a-long-password"}).cookies["sessionid"]
    )

    assert cookie["httponly"] is True
    assert cookie["samesite"] in ("Lax", "Strict")


def test_behind_https_no_cookie_goes_over_http():
    code = (
        "from django.conf import settings as s;"
        "print(s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SESSION_COOKIE_HTTPONLY, s.SESSION_COOKIE_SAMESITE)"
    )
    variables = os.environ | {"HEADROOM_HTTPS": "1", "DJANGO_SETTINGS_MODULE": "webapp.settings"}

    told = subprocess.run(
        [sys.executable, "-c", code],
        env=variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert told.stdout.split() == ["True", "True", "True", "Lax"]


# --- passwords ------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_first_accounts_password_is_drawn_and_never_the_same():
    first = first_account("admin")
    get_user_model().objects.all().delete()

    second = first_account("admin")

    assert first != second
    assert min(len(first), len(second)) >= 16
    assert not any(
        get_user_model().objects.get().check_password(known) for known in ("admin", "password", "")
    )


def test_no_password_stands_in_the_code():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for folder in ("webapp", "stack", "worker", "training", "headroom", "scripts", "deploy")
        for path in (ROOT / folder).rglob("*.py")
        for line, name in literal_passwords(path.read_text())
    ]

    assert found == []


def test_the_search_for_passwords_finds_them():
    code = (
        'create_user("a", password="hunter2")\nPASSWORD = "x"\nsecret_key: str = "y"\nd = {"password": "z"}\n'
    )

    assert [line for line, _ in literal_passwords(code)] == [1, 2, 3, 4]
    assert literal_passwords('password = secrets.token_urlsafe(12)\nform = {"password": ""}\n') == []


SECRET = re.compile(r"(?i)(^|_)(password|passwd|secret_key|api_key)$")


def literal_passwords(code):
    """(line, name) of everything called a password that is given a text in the code."""
    pairs = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.keyword):
            pairs.append((node.arg, node.value))
        elif isinstance(node, ast.Assign):
            pairs += [(target.id, node.value) for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            pairs.append((node.target.id, node.value))
        elif isinstance(node, ast.Dict):
            pairs += [(key.value, value) for key, value in zip(node.keys, node.values, strict=True)
                      if isinstance(key, ast.Constant)]  # fmt: skip
    return sorted(
        (value.lineno, name)
        for name, value in pairs
        if isinstance(name, str) and SECRET.search(name)
        and isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value
    )  # fmt: skip


def test_deployments_take_their_passwords_from_outside():
    for path in (*ROOT.glob("docker-compose*.y*ml"), *ROOT.glob("deploy/**/*.y*ml")):
        for line in path.read_text().splitlines():
            without = re.sub(
                r"\$\{\w+(?::[?-][^}]*)?\}", "FROM-OUTSIDE", line
            )  # ${NAME:?}, also inside an address
            said = re.search(r"(?i)(?:password|secret_key)\s*[:=]\s*(\S+)", without)
            assert said is None or said[1].strip("\"'").startswith("FROM-OUTSIDE"), f"{path.name}: {line}"
            address = re.search(r"://\w*:([^@/\s]+)@", without)
            assert address is None or address[1] == "FROM-OUTSIDE", f"{path.name}: {line}"


# --- launches -------------------------------------------------------------------------------------------------


def post(world, body):
    token = create_token(user=world.user, project=world.project, scope="launch")
    return Client(headers={"Authorization": f"Bearer {token}"}).post(
        "/api/v1/runs", json.dumps(body), content_type="application/json"
    )


def test_a_launch_has_these_fields_and_no_others():
    assert set(LaunchBody.model_fields) == {
        "tracked", "recipe", "revision", "task", "model", "seed", "budget_hours", "name",
        "priority", "retries", "draft", "policies",
    }  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(
    "extra",
    [
        {"command": "rm -rf /"}, {"entrypoint": "sh"}, {"env": {"PYTHONPATH": "/tmp"}}, {"env_vars": {}},
        {"config": {}},
        {"runtime_env": {"pip": ["evil"]}}, {"run_dir": "/etc"}, {"args": ["--engine", "x"]}, {"origin": "launched"},
    ],
)  # fmt: skip
def test_a_launch_with_anything_else_is_refused(model_folder, extra):
    world = make_world("launcher")

    answer = post(world, LAUNCH | extra)

    assert answer.status_code == 422
    assert next(iter(extra)) in answer.json()["error"]["message"]
    assert not Run.objects.exists()


def test_every_part_of_a_recipe_refuses_what_it_does_not_know():
    parts = {Recipe}
    for _ in range(4):
        parts |= {
            inner
            for part in parts
            for field in part.model_fields.values()
            for inner in models_in(field.annotation)
        }

    assert len(parts) > 5
    assert {part.__name__ for part in parts if part.model_config.get("extra") != "forbid"} == set()


def models_in(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {model for inner in getattr(annotation, "__args__", ()) for model in models_in(inner)}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"command": "sh"}, "config.command"),
        ({"env": {"A": "1"}}, "config.env"),
        ({"task": {"name": "arithmetic", "options": {"command": "sh"}}}, None),
    ],
)
def test_a_recipe_carries_no_command_and_no_environment(model_folder, change, field):
    world = make_world("admin")
    recipe = world.project.recipes.get(slug="tiny-scalerl")
    config = recipe.revisions.latest("number").config | change

    if field is not None:
        with pytest.raises(InvalidInput) as caught:
            add_revision(recipe=recipe, config=config, message="", user=world.user)
        assert caught.value.field == field
        return
    add_revision(
        recipe=recipe, config=config, message="", user=world.user
    )  # what a task knows, its launch checks
    answer = post(world, LAUNCH)
    assert answer.status_code == 422
    assert "command" in answer.json()["error"]["message"]
    assert not Run.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("option", ["path", "held_out_path"])
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../services.json", "a/../../runs", "..", "//etc/x", "./../keys/token.json"]
)
def test_data_of_a_recipe_lie_inside_the_data_folder(model_folder, option, path):
    world = make_world("admin")
    recipe = world.project.recipes.get(slug="tiny-scalerl")
    options = {"path": "questions.jsonl", option: path}
    config = recipe.revisions.latest("number").config | {"task": {"name": "math", "options": options}}

    with pytest.raises(InvalidInput) as caught:
        add_revision(recipe=recipe, config=config, message="", user=world.user)

    assert caught.value.field == "config.task.options"
    assert "inside HEADROOM_HOME/data" in caught.value.message


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "field"),
    [
        (
            {
                "task": {
                    "name": "mixture",
                    "options": {"parts": [{"task": "math", "options": {"path": "/etc/x"}}]},
                }
            },
            "config.task.options",
        ),
        ({"eval": {"downstream": [{"task": "math", "options": {"path": "../x"}}]}}, "config.eval.downstream"),
    ],
)
def test_so_do_those_of_a_mixtures_parts_and_of_benchmarks(model_folder, change, field):
    world = make_world("admin")
    recipe = world.project.recipes.get(slug="tiny-scalerl")
    config = recipe.revisions.latest("number").config | change

    with pytest.raises(InvalidInput, match="inside HEADROOM_HOME/data") as caught:
        add_revision(recipe=recipe, config=config, message="", user=world.user)

    assert caught.value.field == field


@pytest.mark.django_db
def test_data_inside_the_folder_are_taken(model_folder):
    world = make_world("admin")
    recipe = world.project.recipes.get(slug="tiny-scalerl")
    options = {"path": "mine/questions.jsonl", "held_out_path": "mine/../held-out.jsonl"}
    config = recipe.revisions.latest("number").config | {"task": {"name": "math", "options": options}}

    assert add_revision(recipe=recipe, config=config, message="", user=world.user)[0].number == 2


@pytest.mark.django_db
def test_what_a_person_types_never_reaches_the_jobs_command_line(model_folder, settings):
    from webapp.record.runs.launch import job_spec
    from worker.dispatch import entrypoint, job_variables

    world = make_world("launcher")
    answer = post(world, LAUNCH | {"name": "x; touch /tmp/owned #"})
    run = Run.objects.get(pk=answer.json()["id"])

    spec = job_spec(run.dispatches.get())

    assert "touch" not in entrypoint(spec)
    assert "touch" not in str(job_variables(spec))
    assert re.fullmatch(r"[a-z0-9]+", run.pk)

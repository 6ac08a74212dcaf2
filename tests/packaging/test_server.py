"""`pip install headroom[server]` in an empty environment: what `manage.py` does in a checkout, with nothing missing."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from headroom.version import __version__
from stack.environment import ROOT
from stack.ports import free_port
from tests.packaging.conftest import Environment

SERVER = (
    "corpus",
    "manage.py",
    "observability",
    "recipes",
    "scaling",
    "stack",
    "static",
    "templates",
    "training",
    "webapp",
    "worker",
)
INSIDE = """
import importlib.util
import sys
from headroom.installed import code_folder
sys.path.insert(0, str(code_folder()))
import django
django.setup()
from django.core.management import call_command
from django.template.loader import get_template
from django.contrib.staticfiles.finders import find
from training.recipe import load_recipe
get_template("base.html"), get_template("status/_status.html")
assert find("css/tokens.css") and find("vendor/plotly-cartesian.min.js")
print(load_recipe("scalerl").name, django.__version__)
call_command("makemigrations", check_changes=True, dry_run=True)
print(*(name for name in ("django", "celery", "gunicorn", "torch", "ray") if importlib.util.find_spec(name)))
"""


def test_the_wheel_has_every_file_of_the_repository_that_the_server_needs_and_no_other(wheel: Path) -> None:
    listed = [
        "git",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "headroom",
        *SERVER,
    ]
    wanted = set(
        subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    )
    wanted = {name for name in wanted if (ROOT / name).exists()}
    with zipfile.ZipFile(wheel) as archive:
        held = {name.removeprefix("headroom/_server/") for name in archive.namelist()}

    assert len(wanted) > 1000
    assert {name for name in held if ".dist-info/" not in name} == wanted


@pytest.mark.deep
def test_its_command_runs_djangos_checks(server: Environment) -> None:
    assert "no issues" in server.says("headroom-server", "check")


@pytest.mark.deep
def test_it_knows_our_own_commands_and_keeps_state_in_the_users_folder_never_beside_the_code(
    server: Environment,
) -> None:
    ours = server.says("headroom-server", "help").split()

    assert {"up", "prepare_stack", "create_token", "migrate", "clean_up"} <= set(ours)
    assert (server.folder / ".local" / "share" / "headroom" / "secrets" / "django_key").is_file()
    assert not list(server.root.glob("lib/python*/site-packages/headroom/**/var"))
    other = server.folder / "data"
    server.says("headroom-server", "help", XDG_DATA_HOME=str(other))
    assert (other / "headroom" / "secrets").is_dir()


@pytest.mark.deep
def test_templates_assets_recipes_and_every_migration_are_there_and_no_package_of_the_trainer(
    server: Environment,
) -> None:
    found = server.says(
        "python", "-c", INSIDE, DJANGO_SETTINGS_MODULE="webapp.settings", HEADROOM_HOME="home"
    ).splitlines()

    assert found[0].startswith("scalerl 5.2")
    assert found[1:] == ["No changes detected", "django celery gunicorn"]


@pytest.mark.deep
def test_fits_run_by_themselves(server: Environment) -> None:
    points = "".join(f"{c},{0.1 + 0.5 / (1 + (4 / c) ** 2):.6f}\n" for c in range(1, 41))
    (server.folder / "points.csv").write_text("compute,reward\n" + points)

    fitted = server.says("headroom-scaling", "fit", "points.csv")

    assert "0.6" in fitted


@pytest.mark.deep
def test_the_same_version_everywhere(server: Environment) -> None:
    asked = "import importlib.metadata, headroom; print(importlib.metadata.version('headroom'), headroom.__version__)"

    assert server.says("python", "-c", asked).split() == [__version__] * 2


@pytest.mark.deep
def test_without_ray_the_stack_says_where_it_comes_from(server: Environment) -> None:
    done = server.run("headroom-server", "up", "--port", str(free_port()))

    assert done.returncode == 1
    assert done.stderr.startswith(
        "CommandError: Ray is not installed: it comes with headroom[train]; --no-ray "
    )

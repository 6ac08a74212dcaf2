"""A project from one database into a fresh one of the same real server, and every file that must be refused."""

import json
import os
import zipfile
import zlib
from io import StringIO
from itertools import count

import psycopg
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command

from tests.databases import create, create_migrated, database_url, dropped
from tests.webapp.operation.project_transfer.filling import SECRET
from tests.webapp.operation.test_backups import run
from webapp.base import disk
from webapp.identity.accounts.models import Membership, Project, User
from webapp.identity.accounts.services import default_organisation, default_project
from webapp.identity.audit.models import Event
from webapp.operation.project_transfer import importing, tables
from webapp.operation.project_transfer.archive import MovingError
from webapp.operation.project_transfer.importing import Person, keep_name, match
from webapp.record.health import patience
from webapp.record.runs.models import Run
from webapp.record.runs.states import ACTIVE

pytestmark = pytest.mark.timeout(600)  # commands of two installations, one after the other
CHANGED = {"states", "people", "members"}


@pytest.fixture(scope="module")
def databases(django_db_setup, django_db_blocker):
    """Addresses of two migrated ones, without an organisation: the first is filled by `exported`."""
    there, here = names = [f"moving_{os.getpid()}_{i}" for i in range(2)]
    with django_db_blocker.unblock():
        create_migrated(there)
    create(here, template=there)
    with dropped(*names) as addresses:
        yield addresses


def done(home, url, *words):
    made = run(home, *words, DATABASE_URL=url)
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.fixture(scope="module")
def exported(databases, tmp_path_factory):
    """What is told of the project in its installation, and its file."""
    home = tmp_path_factory.mktemp("there")
    file = home / "lab.headroom"
    said, told = told_by("filling", home, databases[0], file)
    assert "8 runs" in said and "2 predictions" in said
    return told, file


def told_by(module, home, url, file):
    """(what it said on the way, what it told in the end)."""
    said, _, told = done(home, url, "-m", f"{__package__}.{module}", str(file)).rstrip().rpartition("\n")
    return said, json.loads(told)


def test_a_project_is_the_same_in_another_installation(exported, databases, tmp_path):
    before, file = exported
    said, after = told_by("telling", tmp_path, databases[1], file)

    assert before.keys() == after.keys() and before["points"][0] > 1000
    before["leaderboard"] = as_ended(before["leaderboard"])
    differing = [key for key in sorted(before.keys() - CHANGED) if after[key] != before[key]]
    assert differing == [], (before[differing[0]], after[differing[0]])
    assert before["frozen"] and all(before[f"predictions/{row[0]}"] for row in before["frozen"])
    changed = [pair for pair in zip(before["states"], after["states"], strict=True) if pair[0] != pair[1]]
    assert changed and all(old[1] in ACTIVE and new[1] == "cancelled" for old, new in changed)
    assert f"{len(changed)} run" in said and "that had not ended there: cancelled here." in said
    assert after["members"] == [["ada", "admin"]]
    assert ["grace", False] in after["people"] and "idle" not in dict(after["people"])
    assert "ada: ada of here" in said and "grace: not here; the name is kept by grace" in said

    again = run(tmp_path, "manage.py", "import_project", str(file), DATABASE_URL=databases[1])
    assert again.returncode == 1 and "was imported from this very file" in again.stderr
    beside = run(
        tmp_path, "manage.py", "import_project", str(file), "--slug", "two", DATABASE_URL=databases[1]
    )
    assert beside.returncode == 1 and "is here already, in the project lab" in beside.stderr


@pytest.mark.django_db(transaction=True)
def test_a_project_without_runs_is_copied_beside_itself(tmp_path):
    file, said = tmp_path / "default.headroom", StringIO()
    here = default_project()  # which tests with real transactions may have taken away
    call_command("export_project", here.slug, str(file), stdout=said)
    call_command("import_project", str(file), "--slug", "second", stdout=said)

    assert "The project second is there: 0 runs, 0 points, 0 fits, 0 predictions." in said.getvalue()
    assert Project.objects.exclude(pk=here.pk).get().slug == "second"
    with pytest.raises(CommandError, match="second"):
        call_command("import_project", str(file), "--slug", "second", stdout=said)
    with pytest.raises(CommandError, match="There is no folder"):
        call_command("export_project", here.slug, str(tmp_path / "none" / "x"), stdout=said)
    with pytest.raises(CommandError, match="is a folder: name a file"):
        call_command("export_project", here.slug, str(tmp_path), stdout=said)


def as_ended(said):
    """With the state that runs of there which had not ended have here."""
    if isinstance(said, dict):
        return {
            key: "cancelled" if key == "state" and value in ACTIVE else as_ended(value)
            for key, value in said.items()
        }
    return [as_ended(one) for one in said] if isinstance(said, list) else said


def test_the_file_is_its_owners_and_holds_no_secret(exported):
    _, file = exported
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.glob(".*")] == []
    with zipfile.ZipFile(file) as inside:
        content = b"".join(inside.read(name) for name in inside.namelist())
    assert SECRET.encode() not in content and b"argon2" not in content and b"lab@" not in content
    assert b"ada@lab.example" in content  # who is who


def test_every_table_of_a_project_is_moved_or_left_out_for_a_reason():
    inside = {part.model for part in tables.PARTS}
    reached, grown = {Project} | inside, True
    while grown:
        more = {
            model
            for model in apps.get_models(include_auto_created=True)
            if any(each.related_model in reached - {User} for each in model._meta.local_concrete_fields)
        }
        grown = not more <= reached
        reached |= more
    names = {model._meta.label for model in reached - inside - {Project}}
    assert names == set(tables.LEFT_OUT)


@pytest.fixture
def here(db):
    return default_organisation()


def nothing_was_written():
    return (
        not Project.objects.filter(slug="lab").exists()
        and not User.objects.exists()
        and not Run.objects.exists()
    )


def changed(file, path, **parts):
    """A copy of the file with other members; None takes one out."""
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = parts.get(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    return path


def manifest_of(file):
    with zipfile.ZipFile(file) as inside:
        return json.loads(inside.read("manifest.json"))


def refused(path, organisation, words, **options):
    with pytest.raises(MovingError, match=words) as error:
        importing.import_project(path, organisation, **options)
    assert "\n" not in str(error.value)
    assert nothing_was_written()


def test_a_file_that_is_no_whole_project_is_refused(exported, here, tmp_path):
    _, file = exported
    whole = file.read_bytes()
    refused(tmp_path / "missing", here, "There is no file")
    for name, content in {"text": b"hello", "cut": whole[: len(whole) // 2], "empty": b""}.items():
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, here, "is no whole project of Headroom")


def is_readable(file, part):
    try:
        with zipfile.ZipFile(file) as inside:
            return bool(inside.read(part))
    except (zipfile.BadZipFile, zlib.error):
        return False


@pytest.mark.parametrize("part", ["parts/runs_point.copy", "parts/runs_record.copy", "manifest.json"])
def test_a_flipped_bit_is_found_and_its_part_named(exported, here, tmp_path, part):
    _, file = exported
    path = tmp_path / "flipped"
    with zipfile.ZipFile(file) as inside:
        info = inside.getinfo(part)
    for place in count(info.header_offset + 30 + len(part) + 20 + info.compress_size // 2):
        content = bytearray(file.read_bytes())
        content[place] ^= 0x10
        path.write_bytes(content)
        if not is_readable(path, part):  # a copy of the same letters from elsewhere is the same text
            break
    refused(path, here, f"was changed or damaged, in the part {part.split('/')[-1].removesuffix('.copy')}")


def test_a_part_that_is_missing_or_another_is_named(exported, here, tmp_path):
    _, file = exported
    name = "parts/curves_fit.copy"
    refused(changed(file, tmp_path / "a", **{name: None}), here, "the part curves_fit is missing")
    with zipfile.ZipFile(file) as inside:
        lines = inside.read(name).splitlines(keepends=True)
    fewer = changed(file, tmp_path / "b", **{name: b"".join(lines[1:])})
    refused(fewer, here, "the part curves_fit has [0-9,]+ rows where the manifest says")


def with_manifest(file, path, **changes):
    return changed(file, path, **{"manifest.json": json.dumps(manifest_of(file) | changes)})


def test_other_versions_are_refused_with_what_to_do(exported, here, tmp_path):
    _, file = exported
    migrations = manifest_of(file)["migrations"]
    cases = {
        "has format 99, and this version reads up to 1": {"format": 99},
        r"newer Headroom .*runs\.0999_of_the_future.*Upgrade this": {
            "migrations": [*migrations, "runs.0999_of_the_future"]
        },
        r"older Headroom .*lacks 1 migration \(runs\.0013.*export it again": {
            "migrations": [
                each for each in migrations if each != "runs.0013_effective_points_notes_and_shares"
            ]
        },
        "in the part manifest.json: it is of something else": {"kind": "a backup"},
        "what the manifest says of the project is not whole": {"project": {}},
    }
    for number, (words, changes) in enumerate(cases.items()):
        refused(with_manifest(file, tmp_path / f"{number}", **changes), here, words)


def test_a_row_of_a_run_outside_the_file_is_refused(exported, here, tmp_path):
    """Else it would be written into that run, whoever's it is."""
    _, file = exported
    name = "parts/runs_attempt.copy"
    with zipfile.ZipFile(file) as inside:
        rows = inside.read(name)
    place = manifest_of(file)["parts"]["runs_attempt"]["columns"].index("run_id")
    mine = rows.split(b"\n")[0].split(b"\t")[place]
    rows = rows.replace(mine, b"s" * len(mine))
    foreign = changed(file, tmp_path / "foreign", **{name: rows})
    refused(foreign, here, "runs_attempt has a row of run_id s+, which is not in the file")


def test_a_slug_that_is_taken_or_no_slug_is_refused(exported, here, tmp_path):
    _, file = exported
    Project.objects.create(slug="taken", name="Taken", organisation=here)
    refused(file, here, "There is a project taken here already: name another with --slug", slug="taken")
    refused(file, here, "slug", slug="No slug")
    refused(file, here, "--person eve: nobody in the file", named={"eve": "ada"})
    refused(file, here, "--person ada: there is no account eve here", named={"ada": "eve"})


def test_a_run_that_is_here_already_keeps_everything_out(exported, here):
    _, file = exported
    with psycopg.connect(exported_database(file)) as there:
        (key,) = there.execute("SELECT id FROM runs_run ORDER BY id LIMIT 1").fetchone()
    other = Project.objects.create(slug="other", name="Other", organisation=here)
    Run.objects.create(pk=key, project=other, name="r", task="t", model="m")
    with pytest.raises(MovingError, match=f"The run {key} is here already, in the project other"):
        importing.import_project(file, here)
    assert not Project.objects.filter(slug="lab").exists() and Run.objects.count() == 1


def exported_database(file):
    return database_url(f"moving_{os.getpid()}_0")


def test_an_import_is_told_in_the_log_and_hands_nothing_to_the_cluster(exported, here):
    _, file = exported
    result = importing.import_project(file, here, slug="moved")

    event = Event.objects.get(verb="project.imported")
    assert (event.object_id, event.detail["slug_there"]) == ("moved", "lab")
    assert event.detail["sha256"] == disk.sha256(file)
    assert Event.objects.filter(project=result.project, verb="prediction.frozen", actor_name="ada").exists()
    run = Run.objects.get(name="At work")
    assert (run.state, run.attempts.get().state, run.dispatches.count()) == ("cancelled", "cancelled", 0)
    last = run.transitions.last()
    assert (last.from_state, last.to_state, last.reason) == ("running", "cancelled", importing.WENT_ON)
    assert not Membership.objects.filter(project=result.project).exists()  # nobody of them was here


def test_people_are_the_same_by_name_or_address_and_nobody_is_two(db):
    there = [
        Person(1, "ada", "ada@lab.example", "", ""),
        Person(2, "grace", "grace@lab.example", "", ""),
        Person(3, "linus", "", "", ""),
        Person(4, "eve", "eve@other.example", "", ""),
    ]
    User.objects.create_user("ada", "ADA@lab.example")
    User.objects.create_user("grace", "another@grace.example")
    User.objects.create_user("hopper", "Grace@lab.example")
    User.objects.create_user("root")
    found = {
        each.person.username: each.here and each.here.username for each in match(there, {"linus": "root"})
    }
    assert found == {"ada": "ada", "grace": "hopper", "linus": "root", "eve": None}

    kept = keep_name(there[1], "lab")
    assert (kept.username, kept.is_active, kept.has_usable_password()) == ("grace-of-lab", False, False)
    twice = [Person(1, "a", "ada@lab.example", "", ""), Person(2, "ada", "ada@lab.example", "", "")]
    assert [each.here and each.here.username for each in match(twice, {})] == [None, "ada"]


def test_an_old_database_is_told_to_be_prepared_first(exported, here, monkeypatch):
    _, file = exported
    monkeypatch.setattr(
        importing, "missing_migrations", lambda: ["runs.0013_effective_points_notes_and_shares"]
    )
    refused(file, here, "The database is older than this code")
    assert patience.lacking_of(manifest_of(file)["migrations"]) == []

"""Files that trackio's clients send: first the file itself, then of which run or artifact it is.

Media lie in the run under media/STEP/NAME, what `trackio.save` sends under files/PATH of the project's newest run, and
the files of an artifact under artifacts/NAME/vN/PATH of the run that logged it. What is said of an artifact's versions
lies with those runs (`ClientRun.logged_models`, by NAME:vN).
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import transaction

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.interfaces.tracking import client_runs
from webapp.interfaces.tracking.intake import locked
from webapp.interfaces.tracking.models import ClientRun, Group
from webapp.interfaces.trackio.services import TRACKIO, ensure_run, note_refused_file, parse, text
from webapp.record.artifacts import store
from webapp.record.artifacts.models import Artifact
from webapp.record.samples.store import take_responses

LATEST = "latest"
MOST_FILES = 10_000  # of an artifact, and of a request
NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
DIGEST = re.compile(r"[0-9a-f]{64}")
REFUSED = "refused: "  # and why, in place of a key
Given = Mapping[str, Any]


def receive(project: Project, files: Sequence[UploadedFile], too_large: str) -> list[str]:
    """Their keys, or why a limit refuses one: a client sends again what gets an error, and nothing that comes after it.

    `too_large`: the name of a file that was not even read.
    """
    paths = []
    for file in files:
        try:
            paths.append(store.receive(project, file.name or "", file.read, file.size).key)
        except store.TooLarge as error:
            paths.append(f"{REFUSED}{error.message}")
    return [*paths, f"{REFUSED}{store.too_large(too_large).message}"] if too_large else paths


@transaction.atomic
def keep_media(project: Project, user: User | None, uploads: Iterable[tuple[str, Given]]) -> None:
    """Give files that were uploaded to their runs; of one that cannot be kept its run says so. Safe to repeat."""
    for place, entry in uploads:
        refused = _why_refused(entry)
        file, name = (None, "") if refused else _uploaded(project, entry, place)
        here, path = _place(project, user, entry, place, name)
        if file is None:
            note_refused_file(here, refused)
            continue
        try:
            take_responses(store.keep(here.run, path, file))
        except (Conflict, InvalidInput) as error:
            note_refused_file(here, error.message)


def _why_refused(entry: Given) -> str:
    """What `receive` said of the file that could not be kept."""
    said = entry.get("uploaded_file")
    key = said.get("path") if isinstance(said, dict) else None
    return key.removeprefix(REFUSED) if isinstance(key, str) and key.startswith(REFUSED) else ""


def _place(project: Project, user: User | None, entry: Given, place: str, name: str) -> tuple[ClientRun, str]:
    """The run that an upload is of, and its path there; of none: of the project's newest run."""
    if entry.get("run"):
        line = parse({**entry, "metrics": {}}, place)
        folder = "media" if line.step is None else f"media/{line.step}"
        return ensure_run(project, user, [line]), f"{folder}/{name}"
    group = text(entry, place, "project", client_runs.MAX_GROUP)
    newest = _runs(project, group).order_by("-run__created_at").first()
    if newest is None:
        raise InvalidInput(
            f"{place}.project", f"The project {group!r} has no run yet that could keep its files."
        )
    parts = [part for part in str(entry.get("relative_path") or "").split("/") if part not in ("", ".")]
    return newest, "/".join(["files", *(parts if parts[-1:] == [name] else [*parts, name])])


def _uploaded(project: Project, entry: Given, place: str) -> tuple[store.Received, str]:
    """The file of an entry and the name that the client gives it. Raises InvalidInput."""
    said = entry.get("uploaded_file")
    key, name = (said.get("path"), said.get("orig_name")) if isinstance(said, dict) else (None, None)
    file = store.received(project, key) if isinstance(key, str) else None
    if file is None or not isinstance(name, str):
        raise InvalidInput(
            f"{place}.uploaded_file", f"{place}.uploaded_file is no file that was uploaded here."
        )
    return file, PurePosixPath(name.replace("\\", "/")).name


def keep_blobs(project: Project, uploads: Iterable[tuple[str, Given]]) -> None:
    """Files of an artifact that is still to be logged, known by the digest of their content."""
    for place, entry in uploads:
        if refused := _why_refused(entry):
            raise store.TooLarge(refused)
        file, _ = _uploaded(project, entry, place)
        if file.sha256 != entry.get("digest"):
            raise InvalidInput(f"{place}.digest", f"{place}.digest is not that of the file: {file.sha256}.")
        store.set_aside(project, file)


def present(project: Project, digests: Sequence[Any]) -> list[str]:
    """Which of these contents are here already."""
    wanted = [digest for digest in digests if isinstance(digest, str) and DIGEST.fullmatch(digest)]
    found = set(blobs_of(project).filter(sha256__in=wanted).values_list("sha256", flat=True))
    return [digest for digest in wanted if digest in found or store.is_set_aside(project, digest)]


def blobs_of(project: Project) -> Any:
    """Files of the project's runs, any of which may hold a content."""
    return Artifact.objects.filter(run__project=project).select_related("run")


@dataclass
class Version:
    """One version of an artifact: the run that logged it, and what was said of it."""

    run: ClientRun
    number: int
    about: dict[str, Any]

    @property
    def key(self) -> str:
        return f"{self.about['name']}:v{self.number}"

    @property
    def folder(self) -> str:
        return f"artifacts/{self.about['name']}/v{self.number}"

    def record(self) -> dict[str, Any]:
        """As the client reads it."""
        return {
            **self.about,
            "version": self.number,
            "version_id": self.number,
            "aliases": sorted(self.about["aliases"]),
        }


def _runs(project: Project, group: str) -> Any:
    found = ClientRun.objects.filter(group__project=project, group__name=group, client=TRACKIO)
    return found.select_related("run", "run__project", "group")


def versions(project: Project, group: str, name: str) -> list[Version]:
    """Of an artifact, the oldest first."""
    found = [
        Version(run, int(key.rpartition(":v")[2]), about)
        for run in _runs(project, group).exclude(logged_models={})
        for key, about in run.logged_models.items()
        if about.get("name") == name
    ]
    return sorted(found, key=lambda each: each.number)


def version(project: Project, group: str, name: str, spec: str | None) -> Version | None:
    """By its number ("v3") or an alias; the latest where neither is named."""
    wanted = spec or LATEST
    found = versions(project, group, name)
    return next(
        (each for each in found if f"v{each.number}" == wanted or wanted in each.about["aliases"]), None
    )


@transaction.atomic
def log_version(project: Project, user: User | None, given: Given) -> Version:
    """The next version of an artifact, or the one that holds the same. All of its files or none.

    Raises InvalidInput (kwargs...), and what `store.keep` raises.
    """
    name, manifest = _name(given), _manifest(given)
    said: dict[str, Any] = {
        "project": given.get("project"),
        "run": given.get("run_name"),
        "run_id": given.get("run_id"),
        "metrics": {},
    }
    run = ensure_run(project, user, [parse(said, "kwargs")])
    Group.objects.select_for_update().get(pk=run.group_id)  # of two at once each gets a number of its own
    before = versions(project, run.group.name, name)
    aliases = _aliases(given)
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    same = next((each for each in before if each.about["manifest_digest"] == digest), None)
    if same is None:
        about = {
            "name": name, "type": str(given.get("type") or "")[:200], "description": given.get("description"),
            "metadata": given.get("metadata"), "manifest": manifest, "manifest_digest": digest, "aliases": [],
            "size_bytes": sum(entry["size"] for entry in manifest),
        }  # fmt: skip
        same = Version(run, before[-1].number + 1 if before else 0, about)
        _keep_files(project, same)
        aliases = [*aliases, LATEST]
    others = [each for each in before if each.number != same.number]
    if given.get("overwrite") is True:
        for old in others:
            _forget(old)
        others, aliases = [], [*aliases, LATEST]
    newer = {alias for each in others if each.number > same.number for alias in each.about["aliases"]}
    aliases = [alias for alias in aliases if alias not in newer]  # none goes back to an older version
    for old in others:
        if set(aliases) & set(old.about["aliases"]):
            old.about["aliases"] = [alias for alias in old.about["aliases"] if alias not in aliases]
            client_runs.change_model(old.run, old.key, old.about)
    same.about["aliases"] = list(dict.fromkeys([*same.about["aliases"], *aliases]))
    client_runs.change_model(same.run, same.key, same.about)
    return same


def _keep_files(project: Project, version: Version) -> None:
    for entry in version.about["manifest"]:
        if entry.get("ref"):
            continue  # it lies elsewhere
        here = blobs_of(project).filter(sha256=entry["digest"]).first()
        file = store.copy_of(here) if here else store.take_aside(project, entry["digest"])
        if file is None:
            raise InvalidInput("kwargs.manifest", f"The content of {entry['path']} was not uploaded.")
        store.keep(version.run.run, f"{version.folder}/{entry['path']}", file)


def _forget(old: Version) -> None:
    """A version and its files; what a reference names is elsewhere."""
    store.below(old.run.run, old.folder).delete()
    _, here = locked(old.run)
    here.logged_models.pop(old.key, None)
    here.save(update_fields=["logged_models"])


def _name(given: Given) -> str:
    name = given.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidInput(
            "kwargs.name", "kwargs.name must be letters, digits, dots, underscores and hyphens."
        )
    return name


def _aliases(given: Given) -> list[str]:
    aliases = given.get("aliases") or []
    if not isinstance(aliases, list) or not all(
        isinstance(each, str) and NAME.fullmatch(each) for each in aliases
    ):
        raise InvalidInput("kwargs.aliases", "kwargs.aliases must be a list of names.")
    return aliases


def _manifest(given: Given) -> list[dict[str, Any]]:
    """Path, size and digest of each file, by path; `ref` of what lies elsewhere. Raises InvalidInput."""
    entries = given.get("manifest")
    if not isinstance(entries, list) or not 1 <= len(entries) <= MOST_FILES:
        raise InvalidInput("kwargs.manifest", f"kwargs.manifest must be a list of 1 to {MOST_FILES:,} files.")
    for i, entry in enumerate(entries):
        place = f"kwargs.manifest[{i}]"
        said = entry if isinstance(entry, dict) else {}
        path, size, digest, ref = (said.get(key) for key in ("path", "size", "digest", "ref"))
        if not isinstance(path, str) or not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidInput(place, f"{place} must have a path and a size in bytes.")
        if (
            not isinstance(digest, str)
            or (not ref and not DIGEST.fullmatch(digest))
            or not isinstance(ref, str | None)
        ):
            raise InvalidInput(f"{place}.digest", f"{place}.digest must be a SHA-256 in hex.")
        store.check_path(path)
    known = ("path", "size", "digest", "ref")
    found = [{key: entry[key] for key in known if entry.get(key) is not None} for entry in entries]
    return sorted(found, key=lambda entry: entry["path"])

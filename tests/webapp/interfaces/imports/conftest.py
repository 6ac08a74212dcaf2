"""A project, somebody who may import into it, files as a form sends them; and a source that can break or kill."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from benchmarks.bench_example import make_corpus
from tests.members import member
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.services import create_project, set_role
from webapp.interfaces.imports.models import Import
from webapp.interfaces.imports.readers.kinds import KINDS
from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Options, Row, SourceKind
from webapp.interfaces.imports.services import begin_import
from webapp.interfaces.imports.uploads import asked_of


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two seeds of three arms, each of 160 steps."""
    made = tmp_path_factory.mktemp("corpus")
    make_corpus(made, 6, arms=3, steps=160)
    return made


class Killed(BaseException):
    """The worker dies here, as with SIGKILL: nothing that follows is done."""


class Lines:
    """The kind "lines": each line is "RUN STEP VALUE"; "!" is broken, "KILL" kills while it is deadly."""

    deadly = True

    def read(self, source: Path | str, options: Options) -> list[FoundRun]:
        path = Path(source)
        lines = path.read_text().splitlines()
        runs = dict.fromkeys(line.split()[0] for line in lines if len(line.split()) == 3)
        return [FoundRun(key=run, name=run, rows=partial(self.rows, path, lines, run)) for run in runs]

    def rows(self, path: Path, lines: list[str], run: str) -> Iterator[Row]:
        for number, line in enumerate(lines, start=1):
            if line == "KILL" and self.deadly:
                raise Killed
            name, _, rest = line.partition(" ")
            if line == "!" or (name == run and not rest[0].isdigit()):
                raise BadSource(path.name, number, "This is no row.")
            if name == run:
                step, value = rest.split()
                yield Row(number, int(step), None, {}, {"eval/pass_rate": float(value)})


@pytest.fixture(autouse=True)
def lines_kind() -> Iterator[Lines]:
    lines = Lines()
    KINDS["lines"] = SourceKind("Lines", "file", (".lines",), lines.read, in_place=True)
    yield lines
    del KINDS["lines"]


@pytest.fixture
def project(db: None) -> Project:
    return create_project(slug="math", name="Math")


@pytest.fixture
def user(project: Project) -> User:
    return member("ada", project=project, role="contributor")


@pytest.fixture
def colleague(project: Project) -> User:
    someone = member("bob")
    set_role(project, someone, "viewer")
    return someone


def upload(content: str | bytes, name: str = "metrics.lines") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content.encode() if isinstance(content, str) else content)


@pytest.fixture
def begin(user: User, project: Project) -> Callable[..., Import]:
    """begin("a 1 0.5", kind="lines", ...options): an import of this content that waits for its turn."""

    def make(
        content: str | bytes,
        *,
        kind: str = "lines",
        name: str = "metrics.lines",
        by: User = user,
        **options: object,
    ) -> Import:
        asked = asked_of(kind, options)
        return begin_import(user=by, project=project, asked=asked, files=[upload(content, name)])

    return make

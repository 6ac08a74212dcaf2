"""The short form of the kill matrix (`make chaos` runs all of it)."""

from collections.abc import Iterator

import pytest

from tests.chaos.cases import Case, undisturbed
from tests.chaos.parts import SHORT
from tests.chaos.proofs import Values
from tests.chaos.site import Site

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A stack that may be broken: the other tests have another."""
    with Site() as running:
        yield running


@pytest.fixture(scope="module")
def whole_run(site: Site) -> Values:
    """The run that nothing disturbed."""
    return undisturbed(site)


@pytest.mark.parametrize(("part", "moment"), SHORT)
def test_nothing_is_lost_doubled_or_otherwise(site: Site, whole_run: Values, part: str, moment: str) -> None:
    result = Case(site, part, moment, whole_run).run()

    assert result.passed, "\n".join(result.problems)

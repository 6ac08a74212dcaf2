"""The kill matrix: its short form in `make test`, all of its cells in `make test-deep` (and `make chaos`)."""

import pytest

from tests.chaos.cases import Case, undisturbed
from tests.chaos.parts import MOMENTS, PARTS, SHORT
from tests.chaos.proofs import Values
from tests.chaos.site import Site
from tests.running_stack import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(500)]
CELLS = [
    pytest.param(part, moment, marks=() if (part, moment) in SHORT else pytest.mark.deep)
    for moment in MOMENTS
    for part in PARTS
]


@pytest.fixture(scope="module")
def site(stack: RunningStack) -> Site:
    return Site(stack)


@pytest.fixture(scope="module")
def whole_run(site: Site) -> Values:
    """The run that nothing disturbed."""
    return undisturbed(site)


@pytest.mark.parametrize(("part", "moment"), CELLS)
def test_nothing_is_lost_doubled_or_otherwise(site: Site, whole_run: Values, part: str, moment: str) -> None:
    result = Case(site, part, moment, whole_run).run()

    if result.skipped:
        pytest.skip(result.skipped)
    assert result.passed, "\n".join(result.problems)

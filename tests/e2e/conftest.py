"""The REST API of the whole stack, with the base model of the default task in place."""

from collections.abc import Iterator

import httpx
import pytest

from tests.running_stack import RunningStack


@pytest.fixture(scope="session")
def api(stack_with_model: RunningStack) -> Iterator[httpx.Client]:
    """The REST API with a token that may launch."""
    headers = {"Authorization": f"Bearer {stack_with_model.token('launch')}"}
    with httpx.Client(base_url=f"{stack_with_model.url}/api/v1/", headers=headers, timeout=30) as client:
        yield client

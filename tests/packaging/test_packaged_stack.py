"""The installed server, started as a person would: pages, assets, the API and a run that the client tracks."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headroom.version import __version__
from tests.packaging.conftest import Environment
from tests.running_stack import RunningStack
from tests.waiting import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.stack, pytest.mark.timeout(240)]
TRACK = """
import headroom
run = headroom.init(name="packaged", task="arithmetic", model="tiny")
run.log_evaluation(0.4, n_prompts=10, k=2, step=1, compute={"device_hours": 0.1})
assert run.finish(timeout=60)
print(run.id)
"""


@pytest.fixture(scope="module")
def packaged(server: Environment) -> Iterator[RunningStack]:
    home = Path(tempfile.mkdtemp(prefix="headroom-packaged-"))
    running = RunningStack.start(home, "--no-ray", program=(server.program("headroom-server"),))
    yield running
    running.close()


def test_every_part_answers_but_ray(packaged: RunningStack) -> None:
    expected = dict.fromkeys(("status", "database", "broker", "worker", "beat"), "ok")
    expected |= {"ray": "not configured"}

    wait_until(lambda: httpx.get(f"{packaged.url}/healthz").json() == expected, 60, "every part")


def test_its_pages_come_with_their_assets(packaged: RunningStack) -> None:
    page = httpx.get(f"{packaged.url}/sign-in")

    assert page.status_code == 200
    assets = re.findall(r'(?:href|src)="(/static/[^"]+\.(?:css|js))"', page.text)
    assert len(assets) > 2
    assert [httpx.get(packaged.url + asset).status_code for asset in assets] == [200] * len(assets)


def test_a_run_that_the_installed_client_tracks_arrives_and_the_status_says_the_version(
    packaged: RunningStack, client: Environment
) -> None:
    token = packaged.token("write")
    run = client.says("python", "-c", TRACK, HEADROOM_URL=packaged.url, HEADROOM_TOKEN=token).split()[-1]

    with httpx.Client(
        base_url=f"{packaged.url}/api/v1/", headers={"Authorization": f"Bearer {token}"}
    ) as api:
        assert api.get(f"runs/{run}").json()["state"] == "succeeded"
        assert api.get("recipes/scalerl/revisions").status_code == 200  # the shipped ones were found
        assert api.get("status").json()["release"] == __version__

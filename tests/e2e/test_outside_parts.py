"""The whole story where nothing is embedded: PostgreSQL and Redis of somebody else, and a Ray cluster of two nodes with
an address and one core each, so that a run lies on both of them."""

import json
from collections.abc import Iterator

import psutil
import pytest

from tests.chaos.proofs import effective, page_agrees, stored_once, whole
from tests.chaos.short_run import MIDDLE, STEPS
from tests.chaos.site import Site, own_site
from tests.e2e.outside import HEAD, SECOND, Outside, outside_parts
from tests.waiting import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.stack, pytest.mark.ray, pytest.mark.timeout(600)]

ENDED = {"succeeded", "failed", "cancelled", "lost"}
RUN_SECONDS = 240.0


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    with outside_parts() as parts:
        yield parts


@pytest.fixture(scope="module")
def site(outside: Outside) -> Iterator[Site]:
    with own_site(outside.variables) as started:
        yield started


def state(site: Site, run: str) -> str:
    return str((site.ask(f"runs/{run}") or {}).get("state"))


def wrong_with(site: Site, run: str) -> list[str]:
    """What is missing, doubled or other than in the journal."""
    stored, attempts = site.records(run), site.asked(f"runs/{run}")["attempts"]
    counted = effective(stored, attempts)
    shown = site.asked(f"runs/{run}/curve", x="tokens")
    return stored_once(site.journal(run), stored) + whole(counted) + page_agrees(shown, counted)


def test_nothing_is_embedded(site: Site, outside: Outside) -> None:
    commands = [" ".join(process.cmdline()) for process in site.stack.descendants()]

    assert commands and not any("bin/postgres" in c or "valkey" in c or "raylet" in c for c in commands)
    assert len(psutil.Process(site.stack.process.pid).children()) == 3, commands  # web, worker, beat
    assert not (site.home / "postgres").exists() and not (site.home / "redis").exists()
    wait_until(site.is_well, 60, "every part answers")
    assert {node["node_ip"]: node["resources_total"]["CPU"] for node in outside.nodes()} == {
        HEAD: 1.0,
        SECOND: 1.0,
    }


def engine_lies_on_the_second(site: Site, run: str) -> bool:
    """Whether the run's engine does; if not, its trainer does. Ray chooses."""
    engine, _ = json.loads((site.run_folder(run) / "driver.json").read_text())["processes"]
    raylet = psutil.Process(engine).parent()
    assert raylet is not None
    return f"--node_ip_address={SECOND}" in raylet.cmdline()


def test_a_node_that_is_lost_is_named_and_the_run_goes_on_when_there_is_another(
    site: Site, outside: Outside
) -> None:
    """The run lies on both nodes, before and afterwards. An engine is replaced within the attempt; a trainer needs the
    next one."""
    run = site.launch()
    wait_until(lambda: len(site.journal(run)) > MIDDLE, RUN_SECONDS, "some updates")
    within_the_attempt = engine_lies_on_the_second(site, run)

    outside.second.kill()
    if within_the_attempt:
        log = site.run_folder(run) / "attempt-1.log"
        wait_until(
            lambda: "generator 0 died: its node is gone" in log.read_text(), 180, "the loss in the log"
        )
        assert len(site.asked(f"runs/{run}")["attempts"]) == 1
    else:
        wait_until(lambda: len(site.asked(f"runs/{run}")["attempts"]) > 1, 180, "the next attempt")
        lost = site.asked(f"runs/{run}")["attempts"]
        first = next(attempt for attempt in lost if attempt["number"] == 1)
        assert first["state"] in ("failed", "lost") and first["message"], first

    outside.second = outside.start_second()
    wait_until(lambda: state(site, run) in ENDED, RUN_SECONDS, "end of the run that went on")
    assert state(site, run) == "succeeded", site.last_words()
    assert within_the_attempt == (len(site.asked(f"runs/{run}")["attempts"]) == 1)
    assert wrong_with(site, run) == []
    assert max(record["step"] for record in site.records(run)) == STEPS
    wait_until(lambda: site.asked(f"runs/{run}/fits")["items"], 60, "a stored fit")


def test_the_parts_of_others_outlive_the_stack(site: Site, outside: Outside) -> None:
    site.stack.stop()

    assert outside.answers() and outside.nodes()

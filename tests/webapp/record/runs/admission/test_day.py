"""Simulated days of a thousand runs over three projects: nobody starves, nothing is promised twice, shares hold."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.deep import examples
from tests.webapp.record.runs.admission.day import STEP_HOURS, Day, job
from tests.webapp.record.runs.admission.plain import cores, node
from webapp.record.runs.admission.deciding import AGES_EVERY, TOP_LEVEL

RUNS, STEPS = 1000, 288
AGED_HOURS = TOP_LEVEL * AGES_EVERY.total_seconds() / 3600
SHAPES = {
    (size, count): cores(*[size] * count) for size, count in ((1, 1), (1, 2), (2, 2), (4, 1), (4, 3), (8, 2))
}


def hours_of(job) -> float:
    return job.run.hours


@st.composite
def days(draw: st.DrawFn) -> Day:
    """Clusters of two to six nodes, about as loaded as they can take, with long and short runs of three projects and
    all priorities; or of one project and one priority, where nobody comes before who is the head."""
    is_plain = draw(st.booleans())
    dice = random.Random(draw(st.integers(0, 2**32)))
    nodes = [node(dice.choice((8, 16))) for _ in range(draw(st.integers(2, 6)))]
    load = draw(st.sampled_from((0.5, 0.9, 1.2)))
    shapes = [dice.choice(list(SHAPES)) for _ in range(RUNS)]
    cores_asked = sum(size * count for size, count in shapes)
    mean_takes = max(1.0, load * STEPS * sum(each["CPU"] for each in nodes) / cores_asked)
    jobs = [
        job(
            f"r{number:04}",
            1 if is_plain else dice.choice((1, 1, 1, 2, 2, 3)),
            SHAPES[shape],
            comes=dice.randrange(STEPS),
            takes=1 + int(dice.expovariate(1 / mean_takes)),
            slack=dice.choice((0, 0, 1, 3, None)),
            priority=1 if is_plain else dice.choice((0, 1, 1, 1, 1, 2)),
        )
        for number, shape in enumerate(shapes)
    ]
    return Day(nodes, jobs, {1: 1.0, 2: dice.choice((1.0, 2.0)), 3: 1.0})


@settings(max_examples=examples(20))
@given(days())
def test_every_run_starts_and_no_run_is_passed_to_its_harm(day):
    """`Day` itself sees to it that no bundle lacks room, and that a head starts by the time that it was told."""
    day.live()

    capacity = sum(each["CPU"] for each in day.nodes)
    largest = max(size * count for size, count in SHAPES)
    drained = sum(map(hours_of, day.jobs)) / max(1.0, capacity - largest)
    assert len(day.waited) == RUNS
    assert max(day.waited.values()) * STEP_HOURS <= AGED_HOURS + drained


def test_short_runs_do_pass():
    """Else the day above would show nothing."""
    jobs = [job("first", 1, cores(4), comes=0, takes=20), job("large", 1, cores(8), comes=1, takes=5)]
    jobs += [job(f"small{number}", 1, cores(1), comes=2, takes=3) for number in range(9)]
    day = Day([node(8)], jobs, {1: 1.0})

    day.live()

    assert day.passed == 9
    assert day.waited["large"] == 19


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1.0, 2.0, 3.0)])
def test_while_all_want_more_each_project_gets_its_share(weights):
    dice = random.Random(7)
    projects = dict(enumerate(weights, start=1))
    jobs = [
        job(f"{project}-{number:03}", project, SHAPES[dice.choice(((1, 1), (1, 2), (2, 2), (4, 1)))], comes=0,
            takes=dice.randint(2, 12), slack=1)
        for project in projects
        for number in range(RUNS // 3)
    ]  # fmt: skip
    day = Day([node(16), node(8)], jobs, projects)

    day.live(until_ended=STEPS // 2)

    wanting = {job.run.project for job in day.queue.values()}
    total = sum(day.uses.values())
    assert wanting == set(projects)
    for project, weight in projects.items():
        due = total * weight / sum(weights)
        assert abs(day.uses[project] - due) <= 0.1 * due, (project, day.uses)

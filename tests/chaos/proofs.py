"""What must hold after every case: nothing lost, nothing doubled, the same curve. Each proof returns what is wrong."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tests.chaos.short_run import EVERY, STEPS

Json = dict[str, Any]
Values = dict[tuple[int, str], float]  # (step, name) -> value
MOST_NAMED = 3


def identity(record: Json) -> tuple[int, int]:
    return record["attempt"], record["seq"]


def content(record: Json) -> tuple[Any, ...]:
    return record["step"], record["metrics"], record["compute"]


def stored_once(journal: list[Json], stored: list[Json]) -> list[str]:
    """Every record that `log` returned for is stored once, as it was, and no sequence number is missing."""
    wrong = []
    by_id = {identity(record): record for record in stored}
    lost = [identity(record) for record in journal if identity(record) not in by_id]
    doubled = [key for key, count in Counter(map(identity, stored)).items() if count > 1]
    other = [
        identity(r) for r in journal if identity(r) in by_id and content(by_id[identity(r)]) != content(r)
    ]
    for what, found in (("lost", lost), ("stored twice", doubled), ("stored otherwise", other)):
        if found:
            wrong.append(f"{len(found)} records {what}, e.g. (attempt, seq) {found[:MOST_NAMED]}")
    for attempt in {record["attempt"] for record in stored}:
        numbers = {record["seq"] for record in stored if record["attempt"] == attempt}
        if gaps := sorted(set(range(max(numbers))) - numbers):
            wrong.append(f"attempt {attempt} lacks the records {gaps[:MOST_NAMED]}")
    return wrong


def effective(stored: Iterable[Json], attempts: Iterable[Json]) -> list[Json]:
    """Records that count: not past the step that a later, started attempt resumed from (None: it began anew)."""
    later = [(a["number"], a["resumed_from_step"]) for a in attempts if a["started_at"]]
    return [
        record
        for record in stored
        if not any(
            number > record["attempt"] and (step is None or step < record["step"]) for number, step in later
        )
    ]


def trains_again(stored: Iterable[Json]) -> float | None:
    """When the first record of a later attempt was made, `time.time()`; None where there is only one."""
    times = [datetime.fromisoformat(record["time"]).timestamp() for record in stored if record["attempt"] > 1]
    return min(times, default=None)


def whole(records: list[Json]) -> list[str]:
    """Each update and each evaluation once."""
    wrong = []
    wanted = {"eval/pass_rate": range(0, STEPS + 1, EVERY), "train/reward": range(1, STEPS + 1)}
    for name, steps in wanted.items():
        found = Counter(record["step"] for record in records if name in record["metrics"])
        missing = sorted(set(steps) - set(found))
        doubled = sorted(step for step, count in found.items() if count > 1 or step not in steps)
        if missing or doubled:
            wrong.append(f"{name}: steps {missing} are missing, {doubled} are there twice or too many")
    return wrong


def timeless(records: Iterable[Json]) -> Values:
    """All that measures neither time nor the machine."""
    found: Values = {}
    for record in records:
        kind = "eval" if "eval/pass_rate" in record["metrics"] else "train"
        values = record["metrics"] | {f"compute/{k}": v for k, v in record["compute"].items()}
        for name, value in values.items():
            if not name.startswith(("perf/", "data/", "system/")) and name != "compute/device_hours":
                found[record["step"], f"{kind} {name}"] = value
    return found


def same_curve(undisturbed: Values, records: list[Json], up_to: int = STEPS) -> list[str]:
    """Every value but those of time and machine equals that of the undisturbed run, to the last bit, up to a step."""
    found = timeless(records)
    apart = [
        f"step {step} {name}: {found.get((step, name))} instead of {value}"
        for (step, name), value in sorted(undisturbed.items())
        if step <= up_to and found.get((step, name)) != value
    ]
    return [f"{len(apart)} values differ: {'; '.join(apart[:MOST_NAMED])}"] if apart else []


def page_agrees(curve: Mapping[str, Any], records: list[Json]) -> list[str]:
    """The curve that the page draws is that of the records that count."""
    shown = [(point["step"], point["value"]) for point in curve["points"]]
    ours = [(r["step"], r["metrics"]["eval/pass_rate"]) for r in records if "eval/pass_rate" in r["metrics"]]
    return [] if sorted(shown) == sorted(ours) else [f"the page's curve is {shown}, the records say {ours}"]

"""`python -m headroom tail`: files that are still being written, truncated, torn; and tails that are killed."""

import json
from pathlib import Path
from typing import Any

import pytest

from headroom.__main__ import main
from headroom.tailing import Tail, follow
from tests.headroom.conftest import killed
from tests.headroom.fake_server import FakeServer
from tests.headroom.subprocesses import run_python

STEP = {
    "actor/entropy": 0.4, "timing_s/step": 100.0, "timing_s/testing": 8.0, "timing_s/save_checkpoint": 2.0,
    "perf/total_num_tokens": 1000, "prompt": "1+1",
}  # fmt: skip
CHECKED = {"val-core/gsm8k/acc/mean@4": 0.25}
HOUR = 90 / 3600


def verl(step: int, data: dict[str, Any] | None = None) -> str:
    return json.dumps({"step": step, "data": STEP if data is None else data}) + "\n"


def prime(step: int | None, seconds: float, **values: Any) -> str:
    return json.dumps({"step": step, "time": 1.76e9 + seconds, **values}) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "grpo-8b.jsonl"


def append(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


@pytest.fixture
def tail(file: Path, server: FakeServer):
    """Tails of the file; what is still open at the end is closed."""
    made: list[Tail] = []

    def make(**settings: Any) -> Tail:
        made.append(Tail(file, **{"url": server.url, "token": "hr_test", "devices": 8.0} | settings))
        return made[-1]

    yield make
    for one in made:
        one.finish("succeeded", "", timeout=1)


def records(file: Path) -> list[dict[str, Any]]:
    text = file.with_name(f"{file.stem}.headroom.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def seen(file: Path) -> list[tuple[int, int]]:
    return [(record["attempt"], record["step"]) for record in records(file)]


def test_lines_become_records_as_they_come(tail, file: Path, server: FakeServer) -> None:
    one = tail(task="gsm8k")
    assert one.poll() == 0  # no file yet
    append(file, verl(0, CHECKED) + verl(1))
    assert one.poll() == 2
    append(file, verl(2, STEP | CHECKED))
    assert (one.poll(), one.poll()) == (1, 0)
    assert one.finish("succeeded", "")

    start, first, second = server.records.values()
    assert start["metrics"] == CHECKED | {"eval/pass_rate": 0.25, "eval/k": 4}
    assert first["metrics"]["train/entropy"] == 0.4 and "prompt" not in first["metrics"]
    hours = [record["compute"]["device_hours"] for record in (start, first, second)]
    assert hours == pytest.approx([0, 8 * HOUR, 16 * HOUR])
    assert second["compute"]["tokens"] == 2000 and second["compute"]["flops"] is None
    (made,) = [body for path, body in server.notices if path == "runs"]
    assert (made["name"], made["task"]) == ("grpo-8b", "gsm8k")


def test_a_torn_last_line_waits_for_its_rest(tail, file: Path) -> None:
    one = tail()
    text = verl(2)
    append(file, verl(1) + text[:20])
    assert one.poll() == 1
    append(file, text[20:])
    assert one.poll() == 1 and seen(file) == [(1, 1), (1, 2)]


def test_a_truncated_file_is_the_next_attempt(tail, file: Path, server: FakeServer) -> None:
    one = tail()
    append(file, verl(1) + verl(2) + verl(3))
    one.poll()
    file.write_text(verl(3, STEP | {"actor/entropy": 0.1}))
    one.poll()
    append(file, verl(4))
    one.poll()
    assert one.finish("succeeded", "")

    assert seen(file) == [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4)]
    assert records(file)[3]["compute"]["tokens"] == 3000  # goes on from step 2
    starts = [body["resumed_from_step"] for what, body in server.notices if what == "start"]
    assert starts == [None, 2]


def test_a_file_that_is_longer_than_before_when_it_is_looked_at_again(tail, file: Path) -> None:
    one = tail()
    append(file, verl(1))
    one.poll()
    other = STEP | {"actor/entropy": 0.1}
    file.write_text(verl(1, other) + verl(2, other) + verl(3, other))
    assert one.poll() == 3 and seen(file) == [(1, 1), (2, 1), (2, 2), (2, 3)]
    assert [record["compute"]["tokens"] for record in records(file)] == [1000, 1000, 2000, 3000]


def test_a_tail_that_was_killed_goes_on_where_it_was(tail, file: Path) -> None:
    one = tail()
    append(file, verl(1) + verl(2))
    one.poll()
    killed(one.run)
    append(file, verl(3))
    two = tail()
    assert two.poll() == 1
    assert seen(file) == [(1, 1), (1, 2), (1, 3)]
    assert records(file)[-1]["compute"]["tokens"] == 3000
    assert records(file)[-1]["compute"]["device_hours"] == pytest.approx(24 * HOUR)


@pytest.mark.parametrize("place", ["at the beginning", "one poll before"])
def test_killed_again_and_again_before_it_noted_how_far_it_was(tail, file: Path, place: str) -> None:
    noted = file.with_name(f"{file.stem}.headroom.jsonl.tail")
    for step in (1, 4, 7):
        one = tail()
        append(file, verl(step))
        assert one.poll() == 1
        before = json.loads(noted.read_text())
        append(file, verl(step + 1) + verl(step + 2))
        assert one.poll() == 2
        killed(one.run)
        if place == "at the beginning":
            before |= {"records": 0, "mark": {"offset": 0, "first": "", "last": "", "last_length": 0}}
        noted.write_text(json.dumps(before))

    assert [(record["step"], record["compute"]["tokens"]) for record in records(file)] == [
        (step, 1000 * step) for step in range(1, 10)
    ]


def test_truncated_while_nobody_followed(tail, file: Path) -> None:
    one = tail()
    append(file, verl(1) + verl(2))
    one.poll()
    killed(one.run)
    file.write_text(verl(2, STEP | {"actor/entropy": 0.1}))
    assert tail().poll() == 1 and seen(file) == [(1, 1), (1, 2), (2, 2)]


def test_killed_when_an_attempt_had_begun_and_nothing_was_reported(tail, file: Path) -> None:
    one = tail()
    append(file, verl(1) + verl(2) + verl(3))
    one.poll()
    file.write_text(verl(2, STEP | {"actor/entropy": 0.1}))
    one.poll()
    killed(one.run)
    journal = file.with_name(f"{file.stem}.headroom.jsonl")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    noted = journal.with_name(f"{journal.name}.tail")
    begun = json.loads(noted.read_text())
    begun |= {"records": 0, "mark": {"offset": 0, "first": "", "last": "", "last_length": 0}}
    noted.write_text(json.dumps(begun))

    assert tail().poll() == 1 and seen(file)[-1] == (2, 2)
    assert records(file)[-1]["compute"]["tokens"] == 2000


def test_what_was_used_is_unknown_where_the_step_before_a_restart_was_never_read(tail, file: Path) -> None:
    one = tail()
    append(file, verl(1) + verl(2))
    one.poll()
    file.write_text(verl(10, STEP | {"actor/entropy": 0.1}))
    assert one.poll() == 1
    assert records(file)[-1]["compute"] == {"device_hours": None, "flops": None, "tokens": None}


def test_what_was_used_before_the_first_file_is_unknown(tail, file: Path) -> None:
    append(file, verl(101))
    one = tail()
    one.poll()
    assert records(file)[0]["compute"] == {"device_hours": None, "flops": None, "tokens": None}


def test_without_devices_device_hours_are_unknown(tail, file: Path) -> None:
    append(file, verl(1))
    tail(devices=None).poll()
    assert records(file)[0]["compute"] == {"device_hours": None, "flops": None, "tokens": 1000}


def test_prime_rl(tail, file: Path) -> None:
    append(file, prime(0, 0, **{"reward/all/mean": 0.1, "progress/total_tokens": 10}))
    append(
        file, prime(None, 5, kv=1) + prime(1, 3600, **{"eval/aime/avg@8": 0.5, "progress/total_tokens": 30})
    )
    one = tail(pass_rate="eval/aime/avg@8")
    assert one.poll() == 3
    killed(one.run)
    append(file, prime(2, 7200, x=1))
    tail().poll()

    first, between, second, third = records(file)
    assert first["metrics"] == {"train/reward": 0.1, "progress/total_tokens": 10}
    assert first["time"] == "2025-10-09T08:53:20.000+00:00" and between["step"] == 0
    assert second["metrics"]["eval/pass_rate"] == 0.5
    assert [each["compute"]["device_hours"] for each in (first, second, third)] == pytest.approx([0, 8, 16])
    assert [each["compute"]["tokens"] for each in (first, second)] == [10, 30]


def test_two_pass_rates_are_none_before_one_is_named(
    tail, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    append(file, verl(0, CHECKED | {"val-core/math/acc/mean@4": 0.5}))
    tail().poll()
    assert "eval/pass_rate" not in records(file)[0]["metrics"] and "not clear" in caplog.text


def test_lines_of_another_kind_are_passed_over(tail, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    append(file, "nonsense\n[1]\n{}\n" + verl(1) + '{"step": -1, "data": {}}\n' + verl(2))
    assert tail().poll() == 2 and "has lines that are none of" in caplog.text
    assert seen(file) == [(1, 1), (1, 2)]


def test_tokens_as_steps_and_values_that_are_not_finite(tail, file: Path) -> None:
    append(file, '{"step": 3000000000, "data": {"actor/pg_loss": NaN, "actor/entropy": 0.5}}\n')

    assert tail().poll() == 1
    (record,) = records(file)
    assert (record["step"], record["metrics"]) == (3_000_000_000, {"train/loss": None, "train/entropy": 0.5})


class Clock:
    """Time that passes only when it is slept; what happens meanwhile is a list of acts."""

    def __init__(self, *acts: Any) -> None:
        self.time, self.acts = 0.0, list(acts)

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.acts:
            self.acts.pop(0)()


def test_it_ends_when_the_file_has_not_grown_for_so_long(tail, file: Path, server: FakeServer) -> None:
    clock = Clock(lambda: append(file, verl(1)), lambda: None, lambda: append(file, verl(2)))
    assert follow(tail(), 3, now=clock.now, sleep=clock.sleep)
    assert clock.time == 6 and seen(file) == [(1, 1), (1, 2)]
    (end,) = [body for what, body in server.notices if what == "finish"]
    assert (end["state"], end["message"]) == ("succeeded", "the file did not grow for 3 s")


def test_ctrl_c_finishes_the_run(tail, file: Path, server: FakeServer) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    clock = Clock(lambda: append(file, verl(1)), lambda: None, interrupt)
    assert follow(tail(), None, now=clock.now, sleep=clock.sleep)
    (end,) = [body for what, body in server.notices if what == "finish"]
    assert end["state"] == "cancelled"


def test_the_command(file: Path, server: FakeServer) -> None:
    append(file, verl(1) + verl(2))
    code = "import sys; from headroom.__main__ import main; sys.exit(main(sys.argv[1:]))"
    arguments = [
        "tail",
        str(file),
        "--url",
        server.url,
        "--token",
        "hr_test",
        "--until-idle",
        "0.1",
        "--devices",
        "8",
    ]
    done = run_python(f"import sys; sys.argv[1:] = {arguments!r}; {code}")
    assert done.returncode == 0 and "run made1, 2 lines reported" in done.stdout, done.stderr
    assert server.steps("made1") == [1, 2]


@pytest.mark.parametrize("wrong", [["--devices", "-1"], ["--until-idle", "nan"]])
def test_arguments_that_are_none(file: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tail", str(file), *wrong]) == 2
    assert "is a number above 0" in capsys.readouterr().err


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert main(["tail", str(tmp_path)]) == 2


def test_what_the_machine_did_meanwhile_is_no_line(tail, file: Path) -> None:
    append(file, verl(1))
    first = tail()
    first.poll()
    first.run.log_system({"system/a/host/memory_fraction": 0.5})
    killed(first.run)
    append(file, verl(2))

    assert tail().poll() == 1

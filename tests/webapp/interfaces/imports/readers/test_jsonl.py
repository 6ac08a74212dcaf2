"""verl's file logger, prime-rl's metrics.jsonl, our own journal and curve."""

import json
from pathlib import Path
from typing import Any

import pytest

from headroom.journal import Journal, sealed
from tests.webapp.interfaces.imports.readers.reading import broken, rows_of, runs_of, written
from webapp.interfaces.imports.readers.kinds import guess_kind

STEP = {
    "actor/entropy": 0.4, "critic/rewards/mean": 0.3, "timing_s/step": 100.0, "timing_s/testing": 8.0,
    "timing_s/save_checkpoint": 2.0, "perf/total_num_tokens": 1000, "actor/kl": float("nan"), "sample": "1+1",
}  # fmt: skip
CHECKED = {"val-core/gsm8k/acc/mean@4": 0.25, "val-aux/gsm8k/reward/mean@4": 0.3}


def lines(*items: Any) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


def verl(*steps: tuple[int, dict[str, Any]]) -> str:
    return lines(*({"step": step, "data": data} for step, data in steps))


def test_verl(tmp_path: Path) -> None:
    path = written(tmp_path, "grpo-8b.jsonl", verl((0, CHECKED), (1, STEP), (2, STEP | CHECKED)))
    assert guess_kind(path) == "verl"
    (run,) = runs_of("verl", path, devices=8).values()
    start, first, second = run.rows()

    assert run.name == "grpo-8b" and [row.line for row in (start, first, second)] == [1, 2, 3]
    assert start.metrics == CHECKED | {"eval/pass_rate": 0.25, "eval/k": 4}
    assert start.compute == {"device_hours": 0, "flops": 0, "tokens": 0} and start.time is None
    assert first.metrics["train/entropy"] == 0.4 and first.metrics["train/reward"] == 0.3
    assert first.metrics["actor/kl"] is None and "sample" not in first.metrics
    assert second.compute == {"device_hours": pytest.approx(2 * 8 * 90 / 3600), "flops": None, "tokens": 2000}


def test_without_devices_verls_device_hours_are_unknown(tmp_path: Path) -> None:
    _, row = rows_of("verl", written(tmp_path, "a.jsonl", verl((1, STEP), (2, STEP))))
    assert row.compute == {"device_hours": None, "flops": None, "tokens": 2000}


def test_a_file_of_a_restart_does_not_tell_what_was_used_before(tmp_path: Path) -> None:
    (run,) = runs_of("verl", written(tmp_path, "a.jsonl", verl((101, STEP), (102, STEP))), devices=8).values()
    assert all(row.compute == dict.fromkeys(("device_hours", "flops", "tokens")) for row in run.rows())
    assert "unknown from step 101 on" in run.notes[0]


def test_steps_that_are_missing_leave_the_total_unknown_from_there_on(tmp_path: Path) -> None:
    rows = rows_of("verl", written(tmp_path, "a.jsonl", verl((1, STEP), (2, STEP), (4, STEP), (5, STEP))))
    assert [row.compute["tokens"] for row in rows] == [1000, 2000, None, None]


def test_a_step_whose_amounts_are_missing_has_no_total(tmp_path: Path) -> None:
    rows = rows_of("verl", written(tmp_path, "a.jsonl", verl((1, STEP), (1, CHECKED), (2, CHECKED))))
    assert [row.compute["tokens"] for row in rows] == [1000, 1000, None]


def test_of_two_pass_rates_none_is_taken_before_it_is_named(tmp_path: Path) -> None:
    other = {"val-core/math/acc/mean@4": 0.5}
    path = written(tmp_path, "a.jsonl", verl((0, CHECKED | other)))
    (run,) = runs_of("verl", path).values()
    assert "eval/pass_rate" not in next(run.rows()).metrics and "not clear" in run.notes[0]
    (row,) = rows_of("verl", path, columns={"pass_rate": "val-core/math/acc/mean@4"})
    assert row.metrics["eval/pass_rate"] == 0.5


def test_a_reward_below_0_is_no_pass_rate(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", verl((0, {"val-core/gsm8k/reward/mean@1": -0.5})))
    (run,) = runs_of("verl", path).values()
    assert "eval/pass_rate" not in next(run.rows()).metrics and "not always between 0 and 1" in run.notes[0]
    assert (
        "not between 0 and 1"
        in broken("verl", path, columns={"pass_rate": "val-core/gsm8k/reward/mean@1"}).reason
    )


def test_prime_rl(tmp_path: Path) -> None:
    text = lines(
        {"step": 0, "time": 1760000000.5, "reward/all/mean": 0.1, "progress/total_tokens": 500},
        {"step": None, "time": 1760000100, "inference/agg/kv": 0.7, "producer": "orchestrator"},
        {"step": 1, "time": 1760003600.5, "optim/grad_norm": 2, "progress/total_tokens": 900},
    )
    path = written(tmp_path, "metrics.jsonl", text)
    assert guess_kind(path) == "prime-rl"
    first, between, last = rows_of("prime-rl", path, devices=2)
    assert first.metrics == {"train/reward": 0.1, "progress/total_tokens": 500}
    assert (between.step, between.metrics) == (0, {"inference/agg/kv": 0.7})
    assert last.metrics["train/grad_norm"] == 2 and last.compute == {
        "device_hours": 2.0,
        "flops": None,
        "tokens": 900,
    }
    assert first.time is not None and first.time.timestamp() == 1760000000.5


def test_what_is_nested_deep_is_left_out(tmp_path: Path) -> None:
    deep = '{"a":' * 900 + "1" + "}" * 900
    (row,) = rows_of("verl", written(tmp_path, "a.jsonl", f'{{"step":1,"data":{{"x":{deep},"loss":2}}}}\n'))
    assert row.metrics == {"loss": 2}


def test_a_torn_last_line_is_left_out_and_said(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", verl((1, STEP), (2, STEP))[:-30])
    (run,) = runs_of("verl", path).values()
    assert [row.step for row in run.rows()] == [1] and "in the middle of a record" in run.notes[0]


@pytest.mark.parametrize(
    ("kind", "text", "line", "reason"),
    [
        ("verl", 'x\n{"step":1,"data":{}}\n', 1, "This line is not JSON"),
        ("verl", '{"step":1,"data":{}}\n[1]\n', 2, "no JSON object"),
        ("verl", '{"step":1}\n', 1, "no line of verl's"),
        ("verl", '{"step":-1,"data":{}}\n', 1, "A step is an integer"),
        ("verl", '{"step":true,"data":{}}\n', 1, "A step is an integer"),
        ("verl", '{"step":1,"data":{"perf/total_num_tokens":-5}}\n', 1, "below 0"),
        ("verl", '{"step":1,"data":{"' + "x" * 251 + '":1}}\n', 1, "1 to 250 printable characters"),
        ("verl", "[" * 100_000 + "\n", 1, "not JSON"),
        ("verl", '{"a":' * 100_000 + "\n", 1, "not JSON"),
        ("prime-rl", '{"step":1}\n', 1, "no line of prime-rl's"),
        ("prime-rl", '{"step":1,"time":"soon"}\n', 1, "is no time"),
        ("headroom", '{"step":1,"metrics":{}}\n', 1, "no record of Headroom"),
        ("headroom", '{"step":1,"metrics":{},"compute":{"tokens":-1}}\n', 1, "below 0"),
        ("headroom", '{"step":1,"metrics":{},"compute":{"tokens":"x"}}\n', 1, "not made of numbers"),
        ("headroom", '{"step":1,"metrics":{},"compute":{},"attempt":"x"}\n', 1, "no integer"),
    ],
)
def test_what_is_refused_names_line_and_reason(
    tmp_path: Path, kind: str, text: str, line: int, reason: str
) -> None:
    error = broken(kind, written(tmp_path, "a.jsonl", text))
    assert (error.file, error.line) == ("a.jsonl", line) and reason in error.reason


def journal(path: Path, attempts: dict[int, range]) -> Path:
    book = Journal(path)
    for attempt, steps in attempts.items():
        for step in steps:
            compute = {"device_hours": step / 10, "flops": None, "tokens": 100 * step}
            metrics = {
                "eval/pass_rate": step / 100,
                "eval/pass_rate_stderr": 0.01,
                "reward/all/mean": attempt,
            }
            time = f"2026-01-01T00:00:{step:02}.000+00:00"
            book.append(attempt, {"step": step, "time": time, "compute": compute, "metrics": metrics})
    book.close()
    return path


def test_our_journal_comes_back_as_it_was(tmp_path: Path) -> None:
    path = journal(tmp_path / "metrics.jsonl", {1: range(5)})
    assert guess_kind(path) == "headroom"
    rows = rows_of("headroom", path, devices=64)
    assert [row.step for row in rows] == [0, 1, 2, 3, 4]
    assert rows[3].compute == {"device_hours": 0.3, "flops": None, "tokens": 300}
    assert rows[3].metrics == {"eval/pass_rate": 0.03, "eval/pass_rate_stderr": 0.01, "reward/all/mean": 1}


def test_our_own_steps_are_whole_numbers_of_64_bits(tmp_path: Path) -> None:
    steps = (-3, 2**62 + 1, -(2**63))
    lines = "".join(f'{{"step":{step},"metrics":{{"loss":1}},"compute":{{}}}}\n' for step in steps)

    assert [row.step for row in rows_of("headroom", written(tmp_path, "a.jsonl", lines))] == [*steps]
    error = broken("headroom", written(tmp_path, "b.jsonl", lines + lines.replace("-3", str(2**63))))
    assert error.line == 4 and "A step is an integer" in error.reason


def test_of_an_earlier_attempt_what_a_later_one_did_again_is_left_out(tmp_path: Path) -> None:
    (run,) = runs_of("headroom", journal(tmp_path / "metrics.jsonl", {1: range(5), 2: range(3, 6)})).values()
    rows = list(run.rows())
    assert [(row.step, row.metrics["reward/all/mean"]) for row in rows] == [
        (0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (5, 2)
    ]  # fmt: skip
    assert "A later attempt went on" in run.notes[0]


def test_a_journal_line_that_was_changed_is_refused(tmp_path: Path) -> None:
    good = sealed({"attempt": 1, "seq": 0, "step": 1, "time": None, "compute": {}, "metrics": {"a": 0.5}})
    path = written(tmp_path, "metrics.jsonl", good + good.replace(b"0.5", b"0.6"))
    error = broken("headroom", path)
    assert error.line == 2 and "checksum does not match" in error.reason


def test_our_curve_comes_back(tmp_path: Path) -> None:
    text = "compute,reward,stderr,step,attempt,device_hours,flops,tokens\n1.5,0.25,0.01,10,1,1.5,,500\n"
    path = written(tmp_path, "curve.csv", text)
    assert guess_kind(path) == "headroom"
    (row,) = rows_of("headroom", path)
    assert row.metrics == {"eval/pass_rate": 0.25, "eval/pass_rate_stderr": 0.01} and row.step == 10
    assert row.compute == {"device_hours": 1.5, "flops": None, "tokens": 500}

from training.driver import stepmetrics
from training.driver.stepmetrics import GroupTimes, span_metrics


def test_a_step_gets_the_time_in_which_any_of_its_groups_was_made(monkeypatch):
    told = []
    monkeypatch.setattr(stepmetrics.tracing, "past", lambda *said, **more: told.append((*said, more)))
    now = iter([10.0, 11.0, 15.0, 16.0, 18.0, 21.0, 22.0])
    times = GroupTimes(lambda: next(now))
    times.begins(1)  # 10
    times.begins(2)  # 11
    times.generated(1)  # 15
    times.judged(1)  # 16
    times.generated(2)  # 18
    times.judged(2)  # 21
    times.begins(3)  # still being generated

    found = times.tell([1, 2, 99])
    assert times.tell([1, 2]) == {}
    assert times.tell([3]) == {}

    assert found == {"generate": (10.0, 18.0), "reward": (15.0, 21.0)}
    assert told == [("generate", 10.0, 18.0, {"groups": 2}), ("reward", 15.0, 21.0, {"groups": 2})]


def test_a_record_tells_how_long_a_span_took_and_when_it_ended():
    assert span_metrics({"update": (10.0, 14.0), "weights": (3.0, 4.5)}, now=15.0) == {
        "perf/update_seconds": 4.0, "perf/update_ago_seconds": 1.0,
        "perf/weights_seconds": 1.5, "perf/weights_ago_seconds": 10.5,
    }  # fmt: skip
    assert span_metrics({"update": (10.0, 9.0)}, now=8.0) == {  # a clock that was set back
        "perf/update_seconds": 0.0, "perf/update_ago_seconds": 0.0,
    }  # fmt: skip

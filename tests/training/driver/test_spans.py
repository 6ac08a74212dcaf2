from training.driver import spans
from training.driver.spans import GroupTimes


def test_a_step_gets_the_time_in_which_any_of_its_groups_was_made(monkeypatch):
    told = []
    monkeypatch.setattr(spans.tracing, "past", lambda *said, **more: told.append((*said, more)))
    now = iter([10.0, 11.0, 15.0, 16.0, 18.0, 21.0, 22.0])
    times = GroupTimes(lambda: next(now), is_on=True)
    times.begins(1)  # 10
    times.begins(2)  # 11
    times.generated(1)  # 15
    times.judged(1)  # 16
    times.generated(2)  # 18
    times.judged(2)  # 21
    times.begins(3)  # still being generated

    times.tell([1, 2, 99])
    times.tell([1, 2])
    times.tell([3])

    assert told == [("generate", 10.0, 18.0, {"groups": 2}), ("reward", 15.0, 21.0, {"groups": 2})]

"""The tabs of a run's machines and of its timeline."""

import json
from datetime import UTC, datetime, timedelta

from training.records import Record
from webapp.record.runs import ingest
from webapp.reporting.alarms.services import judge_run

HTMX = {"HX-Request": "true"}
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LOOK = {
    "system/node-a/host/memory_fraction": 0.5, "system/node-a/host/network_sent_bytes_per_second": 2_097_152.0,
    "system/node-a/rank-0/gpu0/busy_fraction": 0.93, "system/node-a/rank-0/gpu0/power_watts": 312.0,
    "system/node-b/host/cpu_fraction": 0.25, "system/gpu/0/utilization": 71.0,
}  # fmt: skip


def report(run, looks, *, first=40):
    ingest.store_records(
        run,
        [
            Record.model_validate(
                {
                    "attempt": 1, "seq": first + i, "step": 30, "time": (BEGAN + timedelta(seconds=15 * i)).isoformat(),
                    "compute": {"device_hours": 8.0, "flops": 8e15, "tokens": 8e6}, "metrics": look,
                }
            )
            for i, look in enumerate(looks)
        ],
    )  # fmt: skip


def tab(ada, run, **query):
    response = ada.get(f"/runs/{run.pk}", {"tab": "machines"} | query, headers=HTMX)
    assert response.status_code == 200
    return response.content.decode()


def test_machines_are_shown_by_node_and_part_in_words(ada, make_run):
    run = make_run(12)
    report(run, [LOOK, LOOK])

    page = tab(ada, run, node="node-a")

    assert "The machine <span" in page and ">Rank 0<" in page
    for words in ("50 %", "2 MiB/s", "GPU 0 busy", "93 %", "GPU 0 power", "312 W"):
        assert words in page
    assert '<option value="node-b">' in page and "25 %" not in page
    assert '<th scope="col">GPU 0 busy</th><th scope="col">GPU 0 power</th>' in page
    assert "<td>93 %</td><td>312 W</td>" in page  # its pictures as a table
    assert "25 %" in tab(ada, run, node="node-b")
    assert "gpu/0/utilization" in tab(ada, run, node="")  # of a client that names no machine


def test_a_machine_that_is_not_there_is_said(ada, make_run):
    run = make_run(12)
    report(run, [LOOK])

    assert "No machine of this run is named “&lt;b&gt;”" in tab(ada, run, node="<b>")


def test_a_run_without_any_says_what_it_takes(ada, make_run):
    assert "Nothing known of its machines yet" in tab(ada, make_run(12))
    assert "Nothing known of its machines</h2>" in tab(ada, make_run(12, seed=1, ended="succeeded"))


def test_machines_are_no_metrics_of_the_diagnostics(ada, make_run):
    run = make_run(12)
    report(run, [LOOK])

    page = ada.get(f"/runs/{run.pk}", {"tab": "diagnostics"}, headers=HTMX).content.decode()
    assert "system/" not in page


def test_idle_gpus_and_full_memory_alarm_and_name_the_machine(ada, make_run):
    run = make_run(12)
    idle = {"system/node-a/host/gpu_busy_fraction": 0.0, "system/node-b/host/gpu_busy_fraction": 0.9}
    report(run, [idle | {"system/node-b/host/memory_fraction": 0.97}] * 40)
    judge_run(run.pk)

    page = ada.get(f"/runs/{run.pk}").content.decode()

    assert "Use of the GPUs on node-a is at or below 5 % since step 30, now 0 %" in page
    assert "Memory of the host on node-b is at or above 95 %" in page
    assert 'href="?tab=machines#metric-system-node-a-host-gpu_busy_fraction"' in page
    assert "warning 0 %" in tab(ada, run, node="node-a")


def test_a_short_pause_of_the_gpus_is_no_alarm(make_run):
    run = make_run(12)
    report(run, [{"system/node-a/host/gpu_busy_fraction": 0.0}] * 39)

    judge_run(run.pk)

    assert not run.alarms.exists()


def test_the_timeline_is_a_drawing_a_table_and_a_file(ada, make_run):
    run = make_run(12)
    step = {"perf/step_seconds": 10.0, "perf/trainer_idle": 0.4, "perf/generate_seconds": 8.0}
    report(run, [step])

    page = ada.get(f"/runs/{run.pk}", {"tab": "timeline"}, headers=HTMX).content.decode()
    trace = ada.get(f"/runs/{run.pk}/timeline.json")

    assert "8 s of generation a step is the longest part; the trainer waits for 40 % of its time." in page
    assert "step 30: waits for a batch, 4 s" in page and "<td>generation</td>" in page
    assert "attachment" in trace["Content-Disposition"]
    assert {event["name"] for event in json.loads(trace.content)["traceEvents"]} >= {
        "generate",
        "update",
        "wait",
    }
    assert ada.get(f"/runs/{run.pk}", {"tab": "timeline", "until": "x"}, headers=HTMX).status_code == 200


def test_batches_that_were_made_before_the_steps_shown_are_no_time_of_theirs(ada, make_run):
    run = make_run(12)
    step = {"perf/step_seconds": 10.0, "perf/trainer_idle": 0.4, "perf/generate_seconds": 8.0}
    report(run, [step | {"perf/generate_ago_seconds": 30.0}])

    page = ada.get(f"/runs/{run.pk}", {"tab": "timeline"}, headers=HTMX).content.decode()

    assert "the trainer waits for 40 % of its time." in page and ">60 %<" in page and ">80 %<" in page


def test_a_run_without_times_says_so(ada, make_run):
    page = ada.get(f"/runs/{make_run(12).pk}", {"tab": "timeline"}, headers=HTMX).content.decode()

    assert "No times recorded" in page

"""The page of a run's samples: hostile text is shown and does nothing; every question has an answer in words."""

import io
import json
import re

from tests.launching import tracked_run
from tests.webapp.interfaces.pages.reading import text_of
from webapp.record.samples.store import keep

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)> [a](javascript:alert(1)) \u202e"


def put(run, step, rows, kind="eval"):
    return keep(run, kind, step, 1, io.BytesIO("\n".join(map(json.dumps, rows)).encode()).read)


def row(key, response, correct, **others):
    base = {"prompt_id": key, "prompt": f"What is {key}?", "response": response, "correct": correct}
    return base | {"reward": 1.0 if correct else -1.0, "tokens": len(response), "judged": True} | others


def page_of(client, run, query=""):
    answer = client.get(f"/runs/{run.pk}/samples{query}")
    assert answer.status_code == 200
    return text_of(answer)


def test_a_run_without_samples_says_how_they_come(ada, make_run):
    assert "samples.every_steps" in page_of(ada, make_run(0))


def test_the_newest_evaluation_is_shown(ada, make_run):
    run = make_run(0)
    put(run, 10, [row("a", "first", True)])
    put(run, 20, [row("a", "<think>hm</think>it is \\boxed{7}", True, truncated=True, why="")])
    put(run, 15, [row("b", "of a batch", False, advantage=None)], kind="train")

    page = page_of(ada, run)
    assert "it is \\boxed{<mark>7</mark>}" in page and "first" not in page and "of a batch" not in page
    assert "cut off by length" in page and "<summary" in page and "Step 10" in page
    assert "not in the loss" in page_of(ada, run, "?kind=train")
    assert "There are no samples of step 11; these are of step 10." in page_of(ada, run, "?step=11")


def test_hostile_text_is_text(ada, make_run):
    run = make_run(0)
    put(run, 1, [row(EVIL, EVIL, False, why=EVIL, answer=EVIL, part=EVIL, prompt=EVIL)])
    put(run, 2, [row(EVIL, EVIL, True, prompt=EVIL)])

    for query in (
        "",
        "?step=1",
        f"?prompt={EVIL.replace('<', '%3C')}&against=1",
        f"?q={EVIL[:-1]}&against={EVIL[:-1]}",
    ):
        page = page_of(ada, run, query)
        assert "<script>alert" not in page and "<img src=x" not in page
        assert "\u202e" not in re.sub("<[^>]*>", "", page)
    assert "&lt;script&gt;alert(1)" in page_of(ada, run) and "⟨U+202E⟩" in page_of(ada, run)


def test_of_a_response_of_a_million_characters_it_is_said_what_is_kept_and_what_is_shown(ada, make_run):
    run = make_run(0)
    put(run, 1, [row("a", "x " * 500_000, True), row("b", "short", True)])

    page = page_of(ada, run)

    assert "180,035 of 200,035 characters are not shown here; the JSONL file has them." in page
    assert (
        page.count("It had 1,000,000 characters: the middle was not kept.") == page.count("the middle") == 1
    )


def test_flags_are_said_in_words(ada, make_run):
    run = make_run(0)
    ended = {"interrupted": True, "truncated": False}
    one, many = row("a", "1", False, forced=1, **ended), row("b", "many", False, forced=19, **ended)
    put(run, 1, [one, many])

    page = page_of(ada, run)

    assert page.count(">thinking ended by force<") == 2
    assert ">1 forced token<" in page and ">19 forced tokens<" in page
    assert ">1 token<" in page and ">4 tokens<" in page


def test_filters_and_what_cannot_be_read(ada, make_run):
    run = make_run(0)
    put(run, 1, [row("a", "short", True), row("a", "something longer", False)])

    page = page_of(ada, run, "?tokens_min=10&flag=incorrect&reward_max=x&page=0")
    assert "something longer" in page and ">short<" not in page
    assert "1 response that you ask for, of 2" in page and "reward_max is no number" in page
    assert "No response of step 1 is one that you ask for." in page_of(ada, run, "?q=nothing")


def test_many_responses_are_paged(ada, make_run):
    run = make_run(0)
    put(run, 1, [row("a", f"number {number:02}", True) for number in range(45)])

    assert "1 to 20 of 45 responses" in page_of(ada, run)
    page = page_of(ada, run, "?page=3")
    assert "41 to 45 of 45" in page and "number 44" in page and ">Next<" not in page
    assert "41 to 45 of 45" in page_of(ada, run, "?page=99")


def test_a_filter_stays_when_another_step_is_shown(ada, make_run):
    run = make_run(0)
    for step in (1, 2, 3):
        put(run, step, [row("a", "x", True)])

    page = page_of(ada, run, "?q=x&flag=correct&reward_min=0&page=1")

    for form in re.findall(r'<form class="row tight".*?</form>', page, re.DOTALL):
        for name, value in (("q", "x"), ("flag", "correct"), ("reward_min", "0")):
            assert f'<input type="hidden" name="{name}" value="{value}">' in form
        assert 'name="page"' not in form


def test_one_prompt_over_the_steps_and_two_side_by_side(ada, make_run):
    run, other = make_run(0), make_run(0)
    put(run, 10, [row("a", "the sum is six", False)])
    put(run, 20, [row("a", "the sum is seven", True), row("b", "not this one", True)])
    put(other, 10, [row("a", "of another run", True)])

    page = page_of(ada, run, "?prompt=a&against=10")
    assert "From 0 % correct at step 10 to 100 % correct at step 20." in page and "not this one" not in page
    assert "<del>six</del><ins>seven</ins>" in page
    assert "of another run" in page_of(ada, run, f"?prompt=a&against={other.pk}:10")
    assert "has no eval samples of step 11" in page_of(ada, run, "?prompt=a&against=11")
    assert "is no step: write a step, or RUN:STEP." in page_of(ada, run, "?prompt=a&against=x")
    put(run, 1000, [row("a", "the sum is ten", True)])
    for step in ("1000", "1,000", f" {run.pk}: 1,000"):
        assert "the sum is ten" in page_of(ada, run, f"?prompt=a&step=10&against={step}")


def test_a_run_of_others_is_not_compared(ada, make_run, foreign_run):
    run = make_run(0)
    put(run, 10, [row("a", "x", False)])
    put(foreign_run, 10, [row("a", "secret", True)])

    for other in (foreign_run.pk, "nothing"):
        page = page_of(ada, run, f"?prompt=a&against={other}:10")
        assert f"There is no run “{other}” in this project." in page and "secret" not in page
    for address in ("samples", "samples.jsonl"):
        assert ada.get(f"/runs/{foreign_run.pk}/{address}").status_code == 404


def test_what_changed_between_two_evaluations(ada, make_run):
    run = make_run(0)
    put(run, 10, [row("lost", "x", True), row("won", "x", False), row("same", "x", True)])
    put(run, 20, [row("lost", "x", False), row("won", "x", True), row("same", "x", True)])

    page = page_of(ada, run)
    assert "1 prompt no longer solved" in page and "1 prompt now solved" in page
    assert "prompt=lost&amp;against=10" in page
    assert "went from solved to unsolved" not in page_of(ada, run, "?step=10")


def test_any_earlier_evaluation_is_compared_with(ada, make_run):
    run = make_run(0)
    for step, correct in ((10, True), (20, False), (30, False)):
        put(run, step, [row("a", "x", correct)])

    assert "No kept prompt went from solved to unsolved or back." in page_of(ada, run)
    for since in ("10", "9", "-3"):
        page = page_of(ada, run, f"?since={since}")
        assert ("1 prompt no longer solved" in page) is (since != "-3")
    assert "since is no whole number" in page


def test_where_nothing_was_judged_a_prompts_history_is_its_rewards(ada, user, project):
    run = tracked_run(user=user, project=project)
    for step, reward in ((10, -0.5), (20, 1.5), (30, None)):
        put(run, step, [{"prompt_id": "a", "prompt": "1 + 1 =", "response": "2", "reward": reward}])

    page = page_of(ada, run, "?prompt=a")

    assert "Mean reward by step" in page
    assert "From a mean reward of -0.5 at step 10 to a mean reward of 1.5 at step 20." in page
    assert "<tr><td>20</td><td>–</td><td>1.5</td></tr>" in page  # the bars as a table
    assert re.findall(r'<rect width="12" height="([\d.]+)"', page) == ["2.0", "28.0"]


def test_of_a_table_of_others_nothing_is_said_that_it_does_not_tell(ada, user, project):
    run = tracked_run(user=user, project=project)
    for step in (10, 20):
        put(run, step, [{"prompt": "1 + 1 =", "response": "2", "reward": 1.0}])
    put(run, 20, [{"prompt": "1 + 1 =", "response": "", "reward": 0.0}], kind="train")

    assert "went from solved to unsolved" not in page_of(ada, run)
    page = page_of(ada, run, "?kind=train")
    assert "No text." in page and "<span>not in the loss</span>" not in page


def test_other_columns_of_a_table_are_shown(ada, user, project):
    run = tracked_run(user=user, project=project)
    of_trl = {
        "prompt": "1 + 1 =",
        "completion": "2",
        "accuracy_reward": 1.0,
        "length_reward": 0.25,
        "step": 10,
    }
    put(run, 10, [of_trl | {EVIL: "x" * 500}, of_trl | {"note": "y" * 60_000}], kind="train")

    page = page_of(ada, run)

    assert page.count("<span>accuracy_reward <strong>1.0</strong></span>") == 1  # the other row has too much
    assert "<span>length_reward <strong>0.25</strong></span>" in page and "<span>step" not in page
    assert f"<strong>{'x' * 80}</strong>" in page and "<script>alert" not in page


def test_a_file_that_is_gone_is_said_and_the_history_stays(ada, make_run, settings):
    run = make_run(0)
    put(run, 10, [row("a", "x", True)])
    for path in (settings.HEADROOM_HOME / "runs" / run.pk).rglob("*.parquet"):
        path.unlink()

    page = page_of(ada, run, "?prompt=a")
    assert (
        "are not on the disk of this server" in page
        and "1 of 1" not in page
        and "step 10: 100 % of 1 correct" in page
    )
    assert "What is a?</pre>" in page


def test_a_page_takes_few_queries(ada, make_run, django_assert_max_num_queries):
    run = make_run(0)
    for step in range(0, 50, 10):
        put(run, step, [row(f"p{number}", "x", True) for number in range(8)])
    page_of(ada, run)

    with django_assert_max_num_queries(14):
        page_of(ada, run)


def test_what_is_shown_is_saved_as_lines(ada, make_run):
    run = make_run(0)
    put(run, 10, [row("a", EVIL, True), row("b", "y", False)])
    put(run, 20, [row("a", "z", True)])

    def lines(query):
        answer = ada.get(f"/runs/{run.pk}/samples.jsonl{query}")
        return [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]

    assert [line["response"] for line in lines("?kind=eval&prompt=a")] == [EVIL, "z"]
    assert [line["step"] for line in lines("?step=10&flag=incorrect")] == [10]
    names = [
        ada.get(f"/runs/{run.pk}/samples.jsonl{query}")["Content-Disposition"]
        for query in ("?step=10", "?kind=eval")
    ]
    assert f"{run.pk}-samples-step-10.jsonl" in names[0] and f"{run.pk}-samples.jsonl" in names[1]

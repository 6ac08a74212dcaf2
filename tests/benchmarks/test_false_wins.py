"""The program that counts how often one of two recipes is called better."""

from pathlib import Path

import numpy as np

from benchmarks.false_wins import Call, Pair, false_row, judge, recipes_of, simulated, true_row


def test_a_pair_far_apart_is_told_apart_and_one_recipe_with_itself_is_not():
    far = simulated(0, apart=0.15, stop=1.0, seeds=(1, 1), seed=0)
    same = Pair(far.first, far.first, 0)

    assert judge(far).here == 1
    assert judge(Pair(far.second, far.first, -1)).here == -1
    assert judge(same).either == 0


def test_nothing_is_said_of_a_run_of_which_too_little_was_seen():
    far = simulated(0, apart=0.15, stop=1.0, seeds=(1, 1), seed=0)
    few = far.second[0].until(far.second[0].compute[3])

    assert judge(Pair(far.first, [few], 1)) == Call(None, None, None)


def test_simulated_pairs_are_the_same_each_time_and_end_where_they_should():
    pair, again = (simulated(3, apart=0.04, stop=0.5, seeds=(3, 1), seed=1) for _ in range(2))

    assert (len(pair.first), len(pair.second), pair.better) == (3, 1, 1)
    assert pair.first[0].compute[-1] == 1.0 and pair.second[0].compute[-1] <= 0.5
    assert np.array_equal(pair.first[0].reward, again.first[0].reward)


def test_rows_count_right_and_wrong_calls():
    calls = [Call(1, 0, None), Call(0, 0, None), Call(0, -1, None), Call(None, None, None)]

    assert false_row(calls)[2].startswith("50.0 %") and false_row(calls)[0].endswith("(N 3)")
    assert false_row(calls)[3] == "- (N 0)"
    here, ceiling, either, _ = true_row([(1, call) for call in calls[:3]])
    assert here.startswith("33.3 %") and ceiling.endswith(", 1 wrong") and either.endswith(", 1 wrong")


def test_recipes_of_the_corpus_differ_by_more_than_their_seeds():
    recipes = recipes_of(Path("corpus/miniature"))

    assert sum(map(len, recipes.values())) >= 14
    assert max(map(len, recipes.values())) >= 3

import pytest

from webapp.interfaces.pages.templatetags.headroom import rank_mark


@pytest.mark.parametrize(
    ("rank", "is_shared", "shown"),
    [(1, False, "1"), (2, True, '2<span title="shares this rank">=</span>'), (None, True, "–")],
)
def test_a_rank_says_whether_it_is_shared(rank, is_shared, shown):
    assert rank_mark(rank, is_shared) == shown

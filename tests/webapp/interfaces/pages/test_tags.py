import pytest

from webapp.interfaces.pages.templatetags.headroom import rank_mark, with_query


@pytest.mark.parametrize(
    ("rank", "is_shared", "shown"),
    [(1, False, "1"), (2, True, '2<span title="shares this rank">=</span>'), (None, True, "–")],
)
def test_a_rank_says_whether_it_is_shared(rank, is_shared, shown):
    assert rank_mark(rank, is_shared) == shown


def test_a_query_keeps_what_was_asked_in_its_order_and_changes_what_is_said(rf):
    request = rf.get("/compare", {"run": ["a b", "c"], "x": "step", "page": "2"})
    context = {"request": request}

    assert with_query(context, x="tokens", page=None) == "?run=a+b&run=c&x=tokens"
    assert with_query(context, run=None, x=None, page=None) == "?"
    assert with_query(context) == "?run=a+b&run=c&x=step&page=2"

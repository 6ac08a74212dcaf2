import pytest

from observability import context


@pytest.mark.parametrize("text", ["a" * 8, "0af7651916cd43dd", "A.b_c-d1", "z" * 64])
def test_an_id_of_the_caller_is_kept(text):
    assert context.accepted_request_id(text) == text


NO_IDS = [
    None,
    "",
    "short",
    "a" * 65,
    "-led-by-a-sign",
    "two words",
    "line\nbreak",
    "ünicode99",
    "a;rm -rf /",
]


@pytest.mark.parametrize("text", NO_IDS)
def test_anything_else_is_replaced_by_a_new_one(text):
    made = context.accepted_request_id(text)

    assert made != text and context.is_request_id(made)


def test_ids_hold_for_their_block_and_what_was_added_in_it_goes_with_it():
    with context.bound(request_id="click-001", run="", attempt=None):
        assert context.ids() == {"request_id": "click-001"}
        with context.bound(run="abc", attempt=2):
            context.add(task="refit")
            assert context.ids() == {"request_id": "click-001", "run": "abc", "attempt": "2", "task": "refit"}
        assert context.ids() == {"request_id": "click-001"}
    assert context.ids() == {} and context.request_id() == ""


def test_a_driver_knows_its_ids_from_its_environment():
    variables = {"HEADROOM_RUN": "abc", "HEADROOM_ATTEMPT": "3", "HEADROOM_REQUEST_ID": "click-001"}

    assert context.driver_ids(variables) == {"run": "abc", "attempt": "3", "request_id": "click-001"}
    assert context.driver_ids({"HEADROOM_REQUEST_ID": "no\nid"}) == {}

"""An address that names a recipe or revision which was deleted, or never was: said, not passed over."""

import pytest
from django.utils.html import escape

HTMX = {"HX-Request": "true"}


@pytest.mark.parametrize("form", ["/runs/new", "/studies/new"])
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"recipe": "short-lived"}, "no recipe “short-lived” (any more). You see ScaleRL (tiny)."),
        ({"recipe": "<b>\0"}, "no recipe “<b>” (any more)"),
        (
            {"recipe": "tiny-minimax", "revision": "99"},
            "MiniMax (tiny) has no revision “99”. You see revision 1.",
        ),
    ],
)
def test_what_is_not_here_is_said(ada, model_folder, form, query, said):
    assert escape(said) in ada.get(form, query).content.decode()


@pytest.mark.parametrize("form", ["/runs/new", "/studies/new"])
@pytest.mark.parametrize(
    "query", [{}, {"recipe": "tiny-minimax"}, {"recipe": "tiny-minimax", "revision": "1"}]
)
def test_what_is_here_needs_no_words(ada, model_folder, form, query):
    page = ada.get(form, query).content.decode()

    assert "You see" not in page


def test_another_recipe_chosen_in_the_form_is_no_mistake(ada, model_folder):
    query = {"recipe": "tiny-minimax", "revision": "7"}  # the number is of the recipe before

    page = ada.get("/runs/new", query, headers=HTMX | {"HX-Trigger-Name": "recipe"}).content.decode()

    assert "You see" not in page

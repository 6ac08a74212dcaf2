"""What a form says where its address names a recipe or a revision that the project does not have."""

from django.http import HttpRequest

from webapp.interfaces.pages.fragments import wants_fragment
from webapp.record.recipes.models import Revision


def not_here(request: HttpRequest, shown: Revision) -> str:
    """What is not here, and what is shown instead; empty where the address names what is shown, or nothing."""
    if request.method != "GET" or wants_fragment(request):
        return ""
    slug, number = (request.GET.get(name, "")[:80] for name in ("recipe", "revision"))
    if slug and slug != shown.recipe.slug:
        return f"This project has no recipe “{slug}” (any more). You see {shown.recipe.name}."
    if number and number != str(shown.number):
        return f"{shown.recipe.name} has no revision “{number}”. You see revision {shown.number}."
    return ""

"""What many views answer alike: the whole page or, to htmx, the region that it swaps; that an address names a recipe
which the project does not have; that a shared link shows nothing any more, and that no search engine keeps it.

Entries of the decision log on the page of a run, prediction or study: what is there, and the form for another.
"""

from http import HTTPStatus
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import patch_vary_headers

from webapp.interfaces.pages.forms import new_key
from webapp.record.recipes.models import Revision
from webapp.reporting.shares.models import Share
from webapp.science.decisions.models import DecisionKind, Entry
from webapp.science.decisions.selectors import Object, about_of, decisions_of
from webapp.science.decisions.services import LONGEST, LONGEST_TARGET

WORDS = {
    "unknown": ("There is no such link", "It may have been cut short when it was copied: ask for it again."),
    "revoked": ("This link was closed", "Whoever shared it has closed it. Ask for a new one."),
    "expired": ("This link has expired", "It was open until {until}. Ask for a new one."),
    "deleted": ("Nothing is left to show", "What this link showed has been deleted."),
    "withdrawn": ("Nothing is published here", "The report was withdrawn. Ask whoever shared it."),
}


def wants_fragment(request: HttpRequest) -> bool:
    """Whether htmx asks for a region; going back in history needs the whole page again."""
    htmx = getattr(request, "htmx", None)
    return htmx is not None and bool(htmx) and not htmx.history_restore_request


def page_or_fragment(
    request: HttpRequest, page: str, fragment: str, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    """Render the template that is wanted. One address has two answers, so caches must tell them apart."""
    response = render(request, fragment if wants_fragment(request) else page, context, status=status)
    patch_vary_headers(response, ["HX-Request", "HX-History-Restore-Request"])
    return response


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


def gone(share: Share | None, why: str) -> HttpResponse:
    """The page of a link that shows nothing; `why` is a key of WORDS."""
    title, sentence = WORDS[why]
    until = f"{share.expires_at:%-d %B %Y, %H:%M} UTC" if share and share.expires_at else ""
    page = render_to_string("shares/gone.html", {"title": title, "sentence": sentence.format(until=until)})
    return unlisted(HttpResponse(page, status=status_of(why)))


def status_of(why: str) -> int:
    """404 for a link that never was, 410 for one that shows nothing any more."""
    return HTTPStatus.NOT_FOUND if why == "unknown" else HTTPStatus.GONE


def unlisted(response: HttpResponse) -> HttpResponse:
    """For no search engine; and pages are asked for anew each time, since a link can be closed."""
    response["X-Robots-Tag"] = "noindex"
    response.headers.setdefault("Cache-Control", "private, no-cache")
    return response


MOST = 20  # newest entries that the page of their object shows


class DecisionForm(forms.Form):
    """What was decided and why."""

    kind = forms.ChoiceField(label="Decision", choices=DecisionKind.choices, widget=forms.RadioSelect)
    to = forms.CharField(
        required=False,
        label="Switch to",
        help_text="A run, a recipe, or what else.",
        max_length=LONGEST_TARGET,
    )
    reason = forms.CharField(
        label="Why",
        widget=forms.Textarea(attrs={"rows": 4, "maxlength": LONGEST}),
        help_text="What you saw, and what would have changed your mind. It can't be edited later.",
    )
    about = forms.CharField(widget=forms.HiddenInput)
    object_id = forms.CharField(widget=forms.HiddenInput)
    key = forms.CharField(widget=forms.HiddenInput, max_length=64)

    def __init__(self, data: Any = None, **initial: Any) -> None:
        super().__init__(
            data, initial={"key": new_key(), "kind": DecisionKind.CONTINUE} | initial, label_suffix=""
        )

    def asked(self) -> dict[str, str]:
        """The fields as `services.decide` takes them; what a switch would go to is left out of other kinds."""
        values = {name: self.cleaned_data[name] for name in ("kind", "reason", "key", "to")}
        return values if values["kind"] == DecisionKind.SWITCH else values | {"to": ""}


def panel(found: Object) -> dict[str, Any]:
    """For `decisions/_panel.html`."""
    about = about_of(found)
    entries = decisions_of(found.project, about=about, object_id=found.pk)[:MOST]
    return {"decisions": entries, "decision_form": DecisionForm(about=about, object_id=found.pk)}


def address_of(entry: Entry) -> str:
    """The page of its object, where the entry is shown."""
    page = reverse(entry.about, args=[entry.object_id])
    return f"{page}?tab=decisions#tabs" if entry.about == "run" else f"{page}#decisions"

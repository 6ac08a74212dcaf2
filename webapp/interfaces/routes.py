"""What a route asks of its reader stands where it is registered: who may read and write, and how often.

`webapp.interfaces.pages.middleware` enforces it, docs/permissions.md and the walks of the tests are derived from it. A
route without it stops the start (`check_declared`), and where one is reached all the same it is refused.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, path

from webapp.base.requests import Limit
from webapp.identity.accounts.permissions import Permission

Pattern = URLPattern | URLResolver

# Limits are a lot for a person and little for a program that runs wild. Who is signed in is counted by account,
# everybody else by address; `HEADROOM_TRUSTED_PROXIES` must be right for that.
SEARCHES = Limit(120, 60)
HEAVY = Limit(60, 60)
READ_BY_LINK = Limit(300, 60)  # an office behind one address reads a link together


class Reader(StrEnum):
    """Who opens what is of no project."""

    EVERYBODY = "everybody"
    SIGNED_IN = "signed in"
    TOKEN = "token"  # the API and the protocols of other trackers ask for it themselves


EVERYBODY, SIGNED_IN, TOKEN = Reader.EVERYBODY, Reader.SIGNED_IN, Reader.TOKEN
VIEW, CONTRIBUTE, LAUNCH, REVIEW, ADMIN = Permission


@dataclass(frozen=True)
class Need:
    """Who may read (GET, HEAD) and write (POST): a permission in the project, or a `Reader`. None: no such method."""

    read: Permission | Reader | None = None
    write: Permission | Reader | None = None
    limit: Limit | None = None
    limit_of_writes: Limit | None = None  # looking at the form costs nothing
    owners: bool = False  # of the organisation, beyond the permission
    takes_files: bool = False

    def of(self, method: str | None) -> Permission | Reader | None:
        """What a request of this method needs; None: nothing grants it."""
        if method not in self.methods:
            return None
        return self.write if method == "POST" else self.read

    @property
    def methods(self) -> list[str]:
        """A view that reads and writes tells the two apart by GET: it takes no HEAD."""
        if self.write is None:
            return ["GET", "HEAD"] if self.read else []
        return ["GET", "POST"] if self.read else ["POST"]

    @property
    def in_project(self) -> bool:
        return isinstance(self.read or self.write, Permission)


NOTHING = Need()


def route(
    address: str, view: Callable[..., Any], name: str, need: Need, extra: dict[str, Any] | None = None
) -> URLPattern:
    """Django's `path` with what it needs."""
    return path(address, _declared(view, need), extra, name=name)


def declare(patterns: Iterable[Pattern], need: Need) -> list[Pattern]:
    """The same patterns, included ones too, with one need; views with Django's `login_not_required`: for everybody."""
    found = list(patterns)
    for pattern in routes_of(found):
        marked = getattr(pattern.callback, "login_required", True) is False
        pattern.callback = _declared(pattern.callback, Need(EVERYBODY, EVERYBODY) if marked else need)
    return found


def need_of(request: HttpRequest) -> Need:
    """Of the route that a request has come to; one that nothing satisfies where it says none."""
    match = getattr(request, "resolver_match", None)
    return getattr(match.func, "need", NOTHING) if match else NOTHING


def routes_of(patterns: Iterable[Pattern]) -> Iterator[URLPattern]:
    """Every route, included ones too, in their order."""
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            yield pattern
        else:
            yield from routes_of(pattern.url_patterns)


def needs_of(patterns: Iterable[Pattern]) -> dict[str, Need]:
    """What each named route needs."""
    return {one.name: getattr(one.callback, "need", NOTHING) for one in routes_of(patterns) if one.name}


def check_declared(patterns: list[Pattern]) -> list[Pattern]:
    """The patterns. Raises ImproperlyConfigured where one of them does not say what it needs."""
    silent = [
        str(one.pattern) for one in routes_of(patterns) if getattr(one.callback, "need", NOTHING) == NOTHING
    ]
    if silent:
        raise ImproperlyConfigured(
            f"Routes that do not say what they need (webapp/interfaces/routes.py): {silent}"
        )
    return patterns


def _declared(view: Callable[..., Any], need: Need) -> Callable[..., Any]:
    @wraps(view)
    def declared(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    declared.need = need  # type: ignore[attr-defined]
    return declared

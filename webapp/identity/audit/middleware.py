"""Every event that a request leads to names the address that it came from, as far as it can be known."""

from collections.abc import Callable
from ipaddress import ip_address

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from webapp.identity.audit.services import address_of_request


def client_address(request: HttpRequest) -> str | None:
    """The address that the nearest trusted proxy saw; without proxies, that of the connection.

    Each proxy appends the address that it saw to X-Forwarded-For, so with `TRUSTED_PROXIES` = n the n-th from the
    right was written by a proxy of ours; whatever stands left of it the client may have made up. None where there is
    no valid address.
    """
    direct = request.META.get("REMOTE_ADDR", "")
    proxies = settings.TRUSTED_PROXIES
    if not proxies:
        return _valid(direct)
    forwarded = [
        part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",") if part.strip()
    ]
    return _valid(forwarded[-proxies]) if len(forwarded) >= proxies else _valid(direct)


def _valid(text: str) -> str | None:
    """The address without port and zone; None where it is none."""
    bare = text.strip().removeprefix("[").partition("]")[0].partition("%")[0]
    if bare.count(":") == 1:  # an IPv4 address with a port
        bare = bare.partition(":")[0]
    try:
        return str(ip_address(bare))
    except ValueError:
        return None


class AddressOfRequest:
    """Sets `webapp.identity.audit.services.address_of_request` for as long as the request is answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        before = address_of_request.set(client_address(request))
        try:
            return self.get_response(request)
        finally:
            address_of_request.reset(before)

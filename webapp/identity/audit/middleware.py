"""Every event that a request leads to names the address that it came from."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from webapp.identity.audit.addresses import client_address
from webapp.identity.audit.services import address_of_request


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

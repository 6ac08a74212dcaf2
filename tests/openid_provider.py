"""A small OpenID provider on a real port: discovery, keys, authorization code with PKCE, userinfo.

It checks what a provider checks (client, secret, redirect address, code once, PKCE) and can be told to misbehave.
"""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.web_server import Received, send, serving

CLIENT, SECRET = "headroom", "the client's secret"


@dataclass
class Provider:
    """A provider's state. `claims` are of whoever signs in; `change` may spoil the claims of a token, `sign` makes it,
    `metadata` is put over the discovery document."""

    key: RSAKey
    url: str = ""
    claims: dict[str, Any] = field(
        default_factory=lambda: {
            "sub": "4711",
            "email": "carol@example.com",
            "email_verified": True,
            "preferred_username": "carol",
        }
    )
    published: list[RSAKey] = field(default_factory=list)
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
    sign: Callable[[dict[str, Any], RSAKey], str] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    only_userinfo: bool = False
    userinfo_subject: str | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[Received] = field(default_factory=list)

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "id_token_signing_alg_values_supported": ["RS256"],
        } | self.metadata

    def sign_in(self, address: str) -> str:
        """What a person's browser does at the provider: the question in, the answer out, both addresses."""
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.url}/authorize"
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert query["client_id"] == CLIENT and query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256" and "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        back = {"code": code, "state": query["state"]}
        if self.discovery().get("authorization_response_iss_parameter_supported"):
            back["iss"] = self.url
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def answer(self, handler: BaseHTTPRequestHandler, asked: Received) -> None:
        self.asked.append(asked)
        path = urlsplit(asked.path).path
        if path == "/.well-known/openid-configuration":
            return send_json(handler, 200, self.discovery())
        if path == "/keys":
            keys = self.published or [self.key]
            return send_json(handler, 200, {"keys": [key.as_dict(private=False) for key in keys]})
        if path == "/token" and asked.method == "POST":
            return send_json(handler, *self.token(asked))
        if path == "/userinfo" and asked.headers.get("authorization") == "Bearer for-userinfo":
            return send_json(handler, 200, self.claims | {"sub": self.userinfo_subject or self.claims["sub"]})
        send_json(handler, 404, {})

    def token(self, asked: Received) -> tuple[int, dict[str, Any]]:
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        question = self.codes.pop(form.get("code", ""), None)
        if self.client_of(asked, form) != (CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        if question is None or form["redirect_uri"] != question["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(hashed).rstrip(b"=").decode() != question["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        told = {"sub": self.claims["sub"]} if self.only_userinfo else self.claims
        now = int(time.time())
        basis = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": question["nonce"]}
        token = (self.sign or signed)(self.change(basis | told), self.key)
        return 200, {"id_token": token, "access_token": "for-userinfo", "token_type": "Bearer"}

    def client_of(self, asked: Received, form: dict[str, str]) -> tuple[str, str]:
        basic = asked.headers.get("authorization", "")
        if basic.startswith("Basic "):
            name, _, secret = base64.b64decode(basic[6:]).decode().partition(":")
            return unquote(name), unquote(secret)
        return form.get("client_id", ""), form.get("client_secret", "")


def new_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


def signed(claims: dict[str, Any], key: RSAKey) -> str:
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)


def send_json(handler: BaseHTTPRequestHandler, status: int, answer: Any) -> None:
    send(handler, status, json.dumps(answer).encode(), {"Content-Type": "application/json"})


@contextmanager
def running(key: RSAKey) -> Iterator[Provider]:
    """A provider that answers."""
    made = Provider(key)
    with serving(made.answer) as server:
        made.url = server.url
        yield made

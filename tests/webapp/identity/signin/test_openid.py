"""OpenID Connect against a real provider on this machine, honest and otherwise."""

import base64
import hmac
import json
import time
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.core.cache import cache
from django.test import Client
from joserfc import jwt
from joserfc.jwk import OctKey

from tests import openid_provider
from tests.authenticator_app import enrolled
from tests.members import member
from tests.openid_provider import CLIENT, SECRET
from tests.webapp.identity.signin.conftest import PASSWORD
from webapp.identity.accounts.models import Role, User
from webapp.identity.accounts.services import create_project
from webapp.identity.audit.models import Event
from webapp.identity.signin import signals
from webapp.identity.signin.models import Identity
from webapp.identity.signin.openid_settings import openid_settings


@pytest.fixture(scope="module")
def key():
    return openid_provider.new_key("one")


@pytest.fixture
def provider(db, settings, key):
    cache.clear()
    with openid_provider.running(key) as made:
        settings.ALLOW_PRIVATE_HOSTS = [urlsplit(made.url).netloc]
        configure(settings, made)
        yield made
    cache.clear()


def configure(settings, provider, **more):
    settings.OIDC = openid_settings(
        {
            "HEADROOM_OIDC_ISSUER": provider.url,
            "HEADROOM_OIDC_CLIENT_ID": CLIENT,
            "HEADROOM_OIDC_CLIENT_SECRET": SECRET,
            "HEADROOM_OIDC_NAME": "Example",
        }
        | {f"HEADROOM_OIDC_{name}": value for name, value in more.items()}
    )


def begin(client, next_url=""):
    return client.get("/sign-in/openid" + (f"?next={next_url}" if next_url else ""))["Location"]


def walk(client, provider, next_url=""):
    """All the way to the provider and back."""
    return client.get(provider.sign_in(begin(client, next_url)))


def who(client):
    return client.session.get("_auth_user_id")


def refused(answer, client, words, status=400):
    assert answer.status_code == status, answer.content
    assert words in answer.content.decode()
    assert who(client) is None
    event = Event.objects.latest("pk")
    assert (event.verb, event.actor, event.detail["how"]) == ("sign_in.failed", None, "Example")
    assert words in event.detail["why"]
    return True


def test_a_new_person_gets_an_account_without_a_password_and_without_a_project(client, provider):
    assert "Sign in with Example" in client.get("/sign-in").content.decode()
    before = client.session.session_key

    assert walk(client, provider, "/leaderboard").url == "/leaderboard"

    carol = User.objects.get()
    assert (carol.username, carol.email) == ("carol", "carol@example.com")
    assert not carol.has_usable_password() and not carol.is_superuser
    assert who(client) == str(carol.pk) and client.session.session_key != before
    assert client.get("/runs").status_code == 404
    assert client.get("/profile").status_code == 200
    identity = Identity.objects.get()
    assert (identity.issuer, identity.subject, identity.label) == (provider.url, "4711", "carol@example.com")


def test_the_same_person_comes_back_to_the_same_account_whatever_their_name_is_now(client, provider):
    walk(client, provider)
    provider.claims |= {"email": "carol.new@example.com", "preferred_username": "c2"}
    again = Client()
    walk(again, provider)
    assert User.objects.count() == 1 and who(again) == who(client)


def test_the_project_of_the_settings(client, provider, settings):
    create_project(slug="math", name="Math")
    configure(settings, provider, DEFAULT_PROJECT="math", DEFAULT_ROLE="contributor")
    walk(client, provider)
    assert User.objects.get().memberships.get().role == Role.CONTRIBUTOR
    assert client.get("/runs").status_code == 200
    told = dict(Event.objects.values_list("verb", "organisation__slug"))
    assert told == dict.fromkeys(("member.added", "account.made", "sign_in.succeeded"), "default")


def test_a_project_that_is_not_there_keeps_nobody_out(client, provider, settings, caplog):
    configure(settings, provider, DEFAULT_PROJECT="maths")
    walk(client, provider)
    assert not User.objects.get().memberships.exists() and "there is no project 'maths'" in caplog.text


def test_a_role_that_is_none_is_found_by_the_check(provider, settings):
    assert list(signals.openid()) == []
    configure(settings, provider, DEFAULT_ROLE="member")
    assert "DEFAULT_ROLE must be one of viewer" in next(signals.openid()).msg


def test_a_taken_name_gets_a_number(client, provider):
    member("Carol")
    provider.claims |= {"preferred_username": "carol!<script>"}
    walk(client, provider)
    provider.claims |= {"sub": "2", "email": "x@example.com", "preferred_username": "carol"}
    walk(Client(), provider)
    provider.claims |= {"sub": "3", "email": "y@example.com", "preferred_username": "carol"}
    walk(Client(), provider)
    assert set(User.objects.values_list("username", flat=True)) == {
        "Carol",
        "carolscript",
        "carol2",
        "carol3",
    }


def test_name_and_address_from_userinfo(client, provider):
    provider.only_userinfo = True
    walk(client, provider)
    assert User.objects.get().email == "carol@example.com"


def test_userinfo_of_somebody_else_is_refused(client, provider):
    provider.only_userinfo, provider.userinfo_subject = True, "somebody"
    assert refused(walk(client, provider), client, "somebody else")


def test_the_secret_is_sent_in_the_form_where_the_provider_wants_that(client, provider):
    provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert walk(client, provider).status_code == 302 and who(client)


def test_the_question_carries_no_secret_and_each_is_new(client, provider):
    first, second = (parse_qs(urlsplit(begin(client)).query) for _ in range(2))
    assert SECRET not in str(first) and "code_verifier" not in first
    for name in ("state", "nonce", "code_challenge"):
        assert first[name] != second[name] and len(first[name][0]) >= 43


def test_two_tabs_both_come_in(client, provider):
    addresses = [begin(client), begin(client)]
    assert client.get(provider.sign_in(addresses[0])).status_code == 302
    assert who(client)


# Accounts that are there already


def test_a_verified_address_of_an_account_does_not_open_it(client, provider):
    member("bob", password=PASSWORD, email="Carol@Example.com")
    assert refused(walk(client, provider), client, "Sign in to it as before, and link")
    assert Event.objects.get().object_name == "bob"
    assert User.objects.count() == 1 and not Identity.objects.exists()


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_unverified_address_is_not_even_stored(client, provider, verified):
    member("bob", password=PASSWORD, email="carol@example.com")
    provider.claims["email_verified"] = verified
    walk(client, provider)
    made = User.objects.exclude(username="bob").get()
    assert made.email == "" and who(client) == str(made.pk)


@pytest.fixture
def bob(provider):
    return member("bob", password=PASSWORD, email="carol@example.com")


def link(client, provider, password=PASSWORD):
    page = client.post("/profile/openid", {"password": password})
    if page.status_code != 200:
        return page
    return walk(client, provider)


def test_linking_on_the_account_page(client, provider, bob):
    client.force_login(bob)
    assert link(client, provider).url == "/profile"
    assert "carol@example.com" in client.get("/profile").content.decode()
    other = Client()
    walk(other, provider)
    assert who(other) == str(bob.pk)
    assert link(client, provider).url == "/profile" and Identity.objects.count() == 1


def test_linking_takes_the_password(client, provider, bob):
    client.force_login(bob)
    assert link(client, provider, "wrong").status_code == 422
    walk(client, provider)
    assert not Identity.objects.filter(user=bob).exists()


def test_nobody_is_led_into_linking_by_an_address(client, provider, bob):
    """Without the form just before, the walk signs in; it never links to who is signed in (forced linking)."""
    client.force_login(bob)
    bob.email = ""
    bob.save()
    walk(client, provider)
    assert not Identity.objects.filter(user=bob).exists()


def test_an_identity_of_another_account_is_not_taken_away(client, provider, bob):
    eve = member("eve", password=PASSWORD)
    Identity.objects.create(user=eve, issuer=provider.url, subject="4711", label="x")
    client.force_login(bob)
    link(client, provider)
    assert Identity.objects.get().user == eve
    assert "another account" in client.get("/profile").content.decode()


def test_a_link_that_was_begun_as_somebody_else_is_not_made(client, provider, bob):
    client.force_login(bob)
    client.post("/profile/openid", {"password": PASSWORD})
    address = provider.sign_in(begin(client))
    asked = client.session["oidc_asked"]
    client.force_login(member("eve"))
    session = client.session
    session["oidc_asked"] = asked
    session.save()
    answer = client.get(address)
    assert answer.status_code == 400 and not Identity.objects.exists()


def test_unlinking(client, provider, bob):
    client.force_login(bob)
    link(client, provider)
    mine = Identity.objects.get()
    eve = Client()
    eve.force_login(member("eve"))
    assert eve.post(f"/profile/openid/{mine.pk}/unlink").status_code == 404
    client.post(f"/profile/openid/{mine.pk}/unlink")
    assert not Identity.objects.exists()


def test_the_only_way_in_is_not_unlinked(client, provider):
    walk(client, provider)
    client.post(f"/profile/openid/{Identity.objects.get().pk}/unlink")
    assert Identity.objects.exists() and "only way" in client.get("/profile").content.decode()


def test_a_closed_account_stays_closed(client, provider):
    walk(Client(), provider)
    User.objects.update(is_active=False)
    assert refused(walk(client, provider), client, "closed")
    assert Event.objects.latest("pk").object_name == "carol"


def test_the_second_factor_is_asked_for_as_well(client, provider):
    walk(Client(), provider)
    app = enrolled(User.objects.get())

    assert walk(client, provider, "/tokens").url == "/sign-in/code"
    assert who(client) is None
    assert client.post("/sign-in/code", {"code": app.next()}).url == "/tokens"
    assert who(client)


@pytest.mark.parametrize(("email", "verified", "comes_in"), [
    ("carol@example.com", True, True),
    ("carol@EXAMPLE.com", True, True),
    ("carol@example.com", False, False),
    ("carol@sub.example.com", True, False),
    ("carol@example.com.evil.org", True, False),
    ("evil.org@example.com@evil.org", True, False),
    ("", True, False),
    (None, True, False),
])  # fmt: skip
def test_domains(client, provider, settings, email, verified, comes_in):
    configure(settings, provider, ALLOWED_DOMAINS="example.com, example.org")
    provider.claims |= {"email": email, "email_verified": verified}
    walk(client, provider)
    assert bool(who(client)) == comes_in == User.objects.exists()


# Attacks


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("answers another question", {"nonce": "other"}),
        ("answers another question", {"nonce": None}),
        ("made for another application", {"aud": "other"}),
        ("made for another application", {"aud": [CLIENT, "other"]}),
        ("made for another application", {"aud": []}),
        ("made for another application", {"azp": "other"}),
        ("made by another provider", {"iss": "https://other.example.com"}),
        ("has expired", {"exp": time.time() - 3600}),
        ("has expired", {"exp": "9999999999"}),
        ("has expired", {"exp": None}),
        ("is not of now", {"iat": time.time() + 3600}),
        ("is not of now", {"iat": time.time() - 3600}),
        ("is not of now", {"iat": None}),
        ("is not of now", {"nbf": time.time() + 3600}),
        ("names nobody", {"sub": ""}),
        ("names nobody", {"sub": None}),
        ("names nobody", {"sub": 4711}),
        ("names nobody", {"sub": "x" * 256}),
        ("names nobody", {"sub": "a\0b"}),
    ],
)
def test_a_token_that_says_something_wrong(client, provider, words, changed):
    provider.change = lambda claims: {k: v for k, v in (claims | changed).items() if v is not None}
    assert refused(walk(client, provider), client, words)
    assert not User.objects.exists()


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsigned(claims, key):
    return f"{part({'alg': 'none', 'kid': key.kid})}.{part(claims)}."


def with_the_public_key_as_a_secret(claims, key):
    """By hand: the library refuses to make such a thing."""
    text = f"{part({'alg': 'HS256', 'kid': key.kid})}.{part(claims)}"
    made = hmac.digest(key.as_pem(private=False), text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


def with_the_clients_secret(claims, key):
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET * 2), algorithms=["HS256"])


def with_another_key(claims, key):
    return openid_provider.signed(claims, openid_provider.new_key(key.kid))


def with_a_key_of_its_own(claims, key):
    own = openid_provider.new_key("own")
    return jwt.encode({"alg": "RS256", "kid": "own", "jwk": own.as_dict(private=False)}, claims, own)


def changed_afterwards(claims, key):
    head, _, tail = openid_provider.signed(claims, key).split(".")
    return f"{head}.{part(claims | {'sub': 'victim'})}.{tail}"


@pytest.mark.parametrize(
    "sign",
    [
        unsigned,
        with_the_public_key_as_a_secret,
        with_the_clients_secret,
        with_another_key,
        with_a_key_of_its_own,
        changed_afterwards,
        lambda claims, key: "nonsense",
        lambda claims, key: "a.b.c",
        lambda claims, key: "",
        lambda claims, key: None,
    ],
)
def test_a_token_that_the_provider_did_not_sign(client, provider, sign):
    provider.sign = sign
    assert refused(walk(client, provider), client, "token")
    assert not User.objects.exists()


def test_an_answer_is_taken_once(client, provider):
    address = provider.sign_in(begin(client))
    client.get(address)
    client.post("/sign-out")
    assert refused(client.get(address), client, "no sign-in that was begun here")


def test_a_state_is_used_up_even_when_the_answer_was_bad(client, provider):
    provider.change = lambda claims: claims | {"aud": "other"}
    address = begin(client)
    client.get(provider.sign_in(address))
    provider.change = lambda claims: claims
    assert refused(client.get(provider.sign_in(address)), client, "no sign-in that was begun here")


def test_an_answer_to_another_browser_is_refused(client, provider):
    """Somebody else's answer, sent to a victim as a link (login CSRF)."""
    address = provider.sign_in(begin(Client()))
    assert refused(client.get(address), client, "no sign-in that was begun here")


@pytest.mark.parametrize("query", ["", "?state=x&code=y", "?code=y", "?error=access_denied"])
def test_an_answer_without_a_question(client, provider, query):
    assert refused(client.get(f"/sign-in/openid/back{query}"), client, "no sign-in that was begun here")


def test_a_code_of_another_question_fails_at_the_provider(client, provider):
    """A stolen code put into one's own answer: PKCE."""
    stolen = parse_qs(urlsplit(provider.sign_in(begin(Client()))).query)["code"][0]
    mine = parse_qs(urlsplit(provider.sign_in(begin(client))).query)
    answer = client.get("/sign-in/openid/back?" + urlencode({"code": stolen, "state": mine["state"][0]}))
    assert refused(answer, client, "status 400", 502)


def test_a_late_answer_is_refused(client, provider):
    address = provider.sign_in(begin(client))
    session = client.session
    session["oidc_asked"] = {
        state: asked | {"since": asked["since"] - 601} for state, asked in session["oidc_asked"].items()
    }
    session.save()
    assert refused(client.get(address), client, "no sign-in that was begun here")


def test_an_answer_of_another_provider_is_refused(client, provider):
    """Mix-up: the answer names who made it (RFC 9207)."""
    address = provider.sign_in(begin(client))
    answer = client.get(address + "&iss=https%3A%2F%2Fother.example.com")
    assert refused(answer, client, "another provider")


def test_who_always_names_itself_may_not_leave_it_out(client, provider):
    provider.metadata = {"authorization_response_iss_parameter_supported": True}
    address = provider.sign_in(begin(client))
    assert refused(client.get(address.partition("&iss=")[0]), client, "another provider")
    assert walk(client, provider).status_code == 302


def test_an_answer_to_a_question_to_the_provider_before_is_refused(client, provider, settings, key):
    address = provider.sign_in(begin(client))
    with openid_provider.running(key) as other:
        settings.ALLOW_PRIVATE_HOSTS = ["127.0.0.1"]
        configure(settings, other)
        assert refused(client.get(address), client, "changed meanwhile")
        assert other.asked == []


def test_a_provider_that_calls_itself_otherwise_is_not_used(client, provider):
    provider.metadata = {"issuer": "https://other.example.com"}
    answer = client.get("/sign-in/openid")
    assert refused(answer, client, "another name", 502)


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize(
    "url", ["https://10.0.0.1/x", "http://example.com/x", "file:///etc/passwd", 7, "javascript:x"]
)
def test_a_provider_cannot_lead_us_elsewhere(client, provider, name, url):
    provider.metadata = {name: url}
    assert refused(client.get("/sign-in/openid"), client, "cannot be used", 502)


def test_a_provider_at_a_private_address_is_not_asked(client, provider, settings, caplog):
    settings.ALLOW_PRIVATE_HOSTS = []
    assert refused(client.get("/sign-in/openid"), client, "must start with https", 502)
    assert f"{provider.url}/.well-known" in caplog.text and Event.objects.get().object_name == ""
    configure(settings, provider, ISSUER=provider.url.replace("http:", "https:"))
    assert refused(client.get("/sign-in/openid"), client, "not on the public internet", 502)
    assert provider.asked == []


def test_new_keys_of_the_provider_are_found(client, provider):
    walk(Client(), provider)
    provider.key = openid_provider.new_key("two")
    cache.delete(f"oidc-keys-fetched:{provider.url}/keys")  # the time until we look again
    assert walk(client, provider).status_code == 302 and who(client)


def test_tokens_with_unknown_keys_do_not_make_us_fetch_each_time(client, provider):
    walk(Client(), provider)
    provider.sign = with_a_key_of_its_own
    for _ in range(5):
        walk(Client(), provider)
    assert sum(asked.path == "/keys" for asked in provider.asked) == 1
    assert sum("well-known" in asked.path for asked in provider.asked) == 1


def test_signing_in_never_leads_elsewhere(client, provider):
    assert walk(client, provider, "https://evil.example.com/").url == "/"


def test_without_a_provider_there_is_no_such_way(client, db):
    assert client.get("/sign-in/openid").status_code == 404
    assert client.get("/sign-in/openid/back?state=x").status_code == 404
    assert "openid" not in client.get("/sign-in").content.decode()


def test_the_secret_can_lie_in_a_file(tmp_path):
    (tmp_path / "secret").write_text("from a file\n")
    found = openid_settings(
        {
            "HEADROOM_OIDC_ISSUER": "https://id.example.com",
            "HEADROOM_OIDC_CLIENT_ID": "x",
            "HEADROOM_OIDC_CLIENT_SECRET_FILE": str(tmp_path / "secret"),
        }
    )
    assert found is not None and found.client_secret == "from a file"

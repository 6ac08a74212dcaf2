"""Signing in with two factors, as a person does it: turn it on, sign out, code, recovery code; and by passkey."""

import re
from contextlib import contextmanager

import pytest
from allauth.mfa.models import Authenticator
from playwright.sync_api import expect

from tests.authenticator_app import App
from tests.browser.contexts import sign_out
from tests.browser.look import look

PASSWORD = "a-long-password"


def sign_in(page, password=PASSWORD):
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def confirm(page):
    expect(page.get_by_role("heading", name="Is it you?")).to_be_visible()
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()


def no_wait():
    """The second that a wrong code makes the next one wait is over."""
    for one in Authenticator.objects.all():
        one.data.pop("failed_at", None)
        one.save()


@pytest.mark.deep
def test_two_factor_from_turning_it_on_to_a_recovery_code(new_page, user):
    user.set_password(PASSWORD)
    user.save()
    page = new_page(permissions=["clipboard-read", "clipboard-write"])

    page.goto("/profile")
    sign_in(page)
    expect(page).to_have_url(re.compile("/profile$"))
    expect(page.get_by_text("this one")).to_be_visible()
    look(page, "account")

    page.get_by_role("link", name="Turn it on").click()
    look(page, "confirm")
    confirm(page)
    picture = page.get_by_role("img", name="QR code of the key that stands below it")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.complete && image.naturalWidth > 100")
    look(page, "two-factor-enrol")
    app = App(page.locator(".enrol .copy code").inner_text())
    page.get_by_label("Code", exact=True).fill("000000")
    page.get_by_role("button", name="Turn it on").click()
    expect(page.get_by_text("This was not accepted")).to_be_visible()
    assert page.locator(".enrol .copy code").inner_text() == app.secret
    page.get_by_label("Code", exact=True).fill(app.code())
    page.get_by_role("button", name="Turn it on").click()
    expect(page.get_by_text("Two-factor sign-in is on.")).to_be_visible()
    look(page, "recovery-codes")
    shown = page.locator(".recovery-codes code").all_inner_texts()
    assert len(shown) == 10
    page.get_by_role("button", name="Copy all").click()
    assert page.evaluate("() => navigator.clipboard.readText()").split() == shown
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_text("10 recovery codes left")).to_be_visible()
    look(page, "account-two-factor")

    sign_out(page)
    sign_in(page)
    code = page.get_by_label("Code", exact=True)
    expect(code).to_be_focused()
    look(page, "sign-in-code")
    code.fill("123456")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("This code is wrong")).to_be_visible()
    page.goto("/profile")  # half way in opens nothing
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    sign_in(page)
    no_wait()
    page.get_by_label("Code", exact=True).fill(app.next())
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile("/profile$"))

    sign_out(page)
    sign_in(page)
    page.get_by_label("Code", exact=True).fill(shown[0])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("That recovery code is used up; 9 are left.")).to_be_visible()

    page.goto("/profile/two-factor/off")
    page.get_by_label("Code", exact=True).fill(shown[1])
    confirm(page)
    look(page, "two-factor-off")
    page.get_by_role("button", name="Turn it off").click()
    expect(page.get_by_text("Off. With it, a stolen password")).to_be_visible()


@contextmanager
def authenticator(page):
    """Chromium's own authenticator in software, which checks who holds it."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    session.send(
        "WebAuthn.addVirtualAuthenticator",
        {
            "options": {
                "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
                "isUserVerified": True, "automaticPresenceSimulation": True,
            }
        },
    )  # fmt: skip
    yield
    session.send("WebAuthn.disable")
    session.detach()


def test_a_passkey_from_registering_it_to_signing_in_with_it_alone(new_page, user):
    user.set_password(PASSWORD)
    user.save()
    page = new_page()
    with authenticator(page):
        page.goto("/profile/passkeys/new")
        sign_in(page)
        confirm(page)
        look(page, "new-passkey")
        page.get_by_label("Name").fill("laptop")
        page.get_by_role("button", name="Make a passkey").click()
        expect(page.get_by_text("Two-factor sign-in is on.")).to_be_visible()
        page.get_by_role("link", name="I have kept them").click()
        expect(page.get_by_role("cell", name="laptop since")).to_be_visible()
        look(page, "account-passkey")

        sign_out(page)
        page.goto("/recipes")
        look(page, "sign-in-passkey")
        page.get_by_role("button", name="Use a passkey").click()
        expect(page).to_have_url(re.compile("/recipes$"))

        sign_out(page)
        sign_in(page)
        expect(page.get_by_role("heading", name="Your code")).to_be_visible()
        page.get_by_role("button", name="Use a passkey").click()
        expect(page).to_have_url(re.compile("localhost:[0-9]+/$"))

        page.goto("/profile")
        page.get_by_role("link", name="Remove laptop").click()
        page.get_by_role("link", name="security key").click()
        page.get_by_role("button", name="Use a passkey").click()
        page.get_by_role("button", name="Remove it").click()
        expect(page.get_by_text("Off. With it, a stolen password")).to_be_visible()


def test_who_has_no_passkey_is_told_so(new_page, transactional_db):
    page = new_page()
    with authenticator(page):
        page.goto("/sign-in")
        page.get_by_role("button", name="Use a passkey").click()
        expect(page.get_by_text("No passkey was used")).to_be_visible()


@pytest.mark.deep
def test_signed_in_on_two_devices(new_page, user):
    other = new_page(
        signed_in=user,
        user_agent="Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1",
    )
    other.watch.expect("401")
    page = new_page(signed_in=user)
    other.goto("/recipes")
    page.goto("/profile")
    expect(page.get_by_role("row")).to_have_count(3)
    look(page, "account-sessions")

    page.get_by_role("button", name="Sign out elsewhere").click()

    expect(page.get_by_text("1 other session ended.")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(2)
    other.goto("/recipes")
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.deep
def test_a_forgotten_password(new_page, user):
    from webapp.identity.signin.passwords import link_path

    user.set_password(PASSWORD)
    user.save()
    page = new_page()
    page.goto("/password/forgotten")
    look(page, "forgotten-password")
    link = link_path(user)
    page.goto(link)
    look(page, "set-password")
    page.get_by_label("New password", exact=True).fill("quite-another-word")
    page.get_by_label("New password, once more").fill("quite-another-word")
    page.get_by_role("button", name="Set the password").click()
    expect(page.get_by_text("The password is set.")).to_be_visible()
    look(page, "sign-in-with-note")
    sign_in(page, "quite-another-word")
    expect(page).to_have_url(re.compile("/$"))
    page.goto("/profile/password")
    look(page, "change-password")
    page.goto(link)
    expect(page.get_by_role("heading", name="This link does not work")).to_be_visible()
    look(page, "set-password-void")

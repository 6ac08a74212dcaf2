"""What the environment says about mail."""

import pytest

from webapp.base.mail import NONE, mail_settings


def test_without_anything_no_mail_is_sent():
    mail = mail_settings({})

    assert (mail.configured, mail.backend, mail.host) == (False, NONE, "")


def test_a_url_of_a_mail_server():
    mail = mail_settings(
        {"HEADROOM_EMAIL_URL": "smtp://ada:p%40ss@mail.example:2525", "HEADROOM_EMAIL_FROM": "h@example.org"}
    )

    assert mail.configured and mail.backend.endswith("smtp.EmailBackend")
    assert (mail.host, mail.port, mail.user, mail.password) == ("mail.example", 2525, "ada", "p@ss")
    assert (mail.starttls, mail.tls, mail.sender) == (True, False, "h@example.org")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtps://mail.example", (465, False, True)),
        ("smtp://mail.example", (587, True, False)),
        ("smtp://mail.example:25?tls=none", (25, False, False)),
    ],
)
def test_how_it_is_encrypted(url, expected):
    mail = mail_settings({"HEADROOM_EMAIL_URL": url})

    assert (mail.port, mail.starttls, mail.tls) == expected


def test_single_variables():
    mail = mail_settings(
        {"HEADROOM_SMTP_HOST": "mail.example", "HEADROOM_SMTP_TLS": "tls", "HEADROOM_SMTP_USER": "ada"}
    )

    assert (mail.configured, mail.host, mail.port, mail.user, mail.tls) == (
        True,
        "mail.example",
        465,
        "ada",
        True,
    )


def test_a_slip_of_the_pen_does_not_send_in_the_clear():
    with pytest.raises(ValueError, match="HEADROOM_SMTP_TLS must be one of"):
        mail_settings({"HEADROOM_SMTP_HOST": "mail.example", "HEADROOM_SMTP_TLS": "startls"})
    assert mail_settings({"HEADROOM_SMTP_HOST": "mail.example", "HEADROOM_SMTP_TLS": "SSL"}).tls
    assert not mail_settings({"HEADROOM_SMTP_HOST": "mail.example", "HEADROOM_SMTP_TLS": "off"}).starttls


def test_into_a_folder():
    assert mail_settings({"HEADROOM_EMAIL_URL": "file:///var/mail"}).folder == "/var/mail"


def test_another_url_is_refused():
    with pytest.raises(ValueError, match="must begin with smtp"):
        mail_settings({"HEADROOM_EMAIL_URL": "https://mail.example"})

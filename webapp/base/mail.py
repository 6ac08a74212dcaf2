"""How mail leaves: what the environment says, as the values of Django's settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

BACKENDS = {
    "smtp": "django.core.mail.backends.smtp.EmailBackend",
    "smtps": "django.core.mail.backends.smtp.EmailBackend",
    "console": "django.core.mail.backends.console.EmailBackend",
    "file": "django.core.mail.backends.filebased.EmailBackend",
}
NONE = "django.core.mail.backends.dummy.EmailBackend"
PORTS = {"smtp": 587, "smtps": 465}
ENCRYPTION = ("starttls", "tls", "ssl", "none", "off")


@dataclass(frozen=True)
class Mail:
    """`configured`: whether a mail that is sent goes anywhere. `starttls` and `tls` exclude each other."""

    configured: bool = False
    backend: str = NONE
    host: str = ""  # empty: no mail is set up
    port: int = 25
    user: str = ""
    password: str = ""
    starttls: bool = False
    tls: bool = False
    folder: str | None = None
    sender: str = "headroom@localhost"


def mail_settings(environment: Mapping[str, str]) -> Mail:
    """HEADROOM_EMAIL_URL (smtp://USER:PASSWORD@HOST:PORT, smtps://..., file:///FOLDER, console:), else
    HEADROOM_SMTP_HOST, _PORT, _USER, _PASSWORD and _TLS (starttls; tls or ssl; none or off); HEADROOM_EMAIL_FROM is the
    sender.

    SMTP is upgraded with STARTTLS unless ?tls=none says that it is not. Raises ValueError for another URL.
    """
    sender = environment.get("HEADROOM_EMAIL_FROM") or environment.get("HEADROOM_MAIL_FROM") or Mail.sender
    if url := environment.get("HEADROOM_EMAIL_URL", ""):
        return _of_url(url, sender)
    if not (host := environment.get("HEADROOM_SMTP_HOST", "")):
        return Mail(sender=sender)
    tls = (environment.get("HEADROOM_SMTP_TLS") or "starttls").lower()
    if tls not in ENCRYPTION:
        raise ValueError(f"HEADROOM_SMTP_TLS must be one of {', '.join(ENCRYPTION)}")
    scheme = "smtps" if tls in ("tls", "ssl") else "smtp"
    port = int(environment.get("HEADROOM_SMTP_PORT") or PORTS[scheme])
    user, password = environment.get("HEADROOM_SMTP_USER", ""), environment.get("HEADROOM_SMTP_PASSWORD", "")
    return Mail(
        True, BACKENDS[scheme], host, port, user, password, tls == "starttls", scheme == "smtps", None, sender
    )


def _of_url(url: str, sender: str) -> Mail:
    parts = urlsplit(url)
    if parts.scheme not in BACKENDS:
        raise ValueError("HEADROOM_EMAIL_URL must begin with smtp://, smtps://, file:/// or console:")
    backend = BACKENDS[parts.scheme]
    if parts.scheme not in PORTS:
        folder = parts.path if parts.scheme == "file" else None
        return Mail(True, backend, "localhost", folder=folder, sender=sender)
    plain = parse_qs(parts.query).get("tls") == ["none"]
    return Mail(
        True, backend, parts.hostname or "localhost", parts.port or PORTS[parts.scheme], unquote(parts.username or ""),
        unquote(parts.password or ""), parts.scheme == "smtp" and not plain, parts.scheme == "smtps", None, sender,
    )  # fmt: skip

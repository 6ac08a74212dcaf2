"""However somebody signs in, the session is noted."""

from typing import Any

from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest

from webapp.identity.accounts.models import User
from webapp.identity.signin import sessions


@receiver(user_logged_in)
def note_session(request: HttpRequest, user: User, **_: Any) -> None:
    sessions.note(request, user)

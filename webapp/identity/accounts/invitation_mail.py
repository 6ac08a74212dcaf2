"""Sending an invitation by mail, where the installation can."""

import logging

from django.conf import settings
from django.core.mail import send_mail

from webapp.identity.accounts.models import Invitation

log = logging.getLogger(__name__)

TEXT = """{inviter} invites you to the project {project} of Headroom, as {role}.

{url}

The link works once, until {until} UTC. If you do not know {inviter}, ignore this mail.
"""


def send_invitation(invitation: Invitation, url: str) -> bool | None:
    """True: handed to the mail server; False: it was not taken; None: no mail is set up, or no address is known.

    A mail server that is away does not undo the invitation: its link can be sent in another way.
    """
    if not settings.EMAIL_CONFIGURED or not invitation.email:
        return None
    inviter = invitation.invited_by.get_username() if invitation.invited_by else "Somebody"
    until = f"{invitation.expires_at:%-d %B %Y, %H:%M}"
    text = TEXT.format(
        inviter=inviter, project=invitation.project, role=invitation.role, url=url, until=until
    )
    subject = " ".join(f"{inviter} invites you to {invitation.project}".split())
    try:
        return send_mail(subject, text, None, [invitation.email]) == 1
    except Exception as error:  # whatever the mail server or the network raises
        log.warning("an invitation could not be mailed: %s", type(error).__name__)
        return False

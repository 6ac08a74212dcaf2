"""Where people are signed in, and identities at an OpenID provider. Second factors: `allauth.mfa`."""

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import models


class SignedIn(models.Model):
    """A session that somebody is signed in with. It goes with its session."""

    session = models.OneToOneField(Session, on_delete=models.CASCADE, related_name="signed_in")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="signed_in")
    agent = models.CharField(max_length=300)  # the browser's own words
    address = models.GenericIPAddressField(null=True)
    signed_in_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField(auto_now_add=True)  # to within `sessions.SEEN_EVERY`


class Identity(models.Model):
    """Who somebody is at an OpenID provider: the pair never changes, unlike a name or an address."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)
    label = models.CharField(max_length=254)  # for people: the address or name that the provider told
    linked_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        unique_together = [("issuer", "subject")]


class PasswordMail(models.Model):
    """When somebody was last sent a link for a new password."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    sent_at = models.DateTimeField()

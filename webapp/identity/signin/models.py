"""Second factors, recovery codes, where people are signed in, and identities at an OpenID provider."""

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import models


class TwoFactor(models.Model):
    """A person's confirmed authenticator app. Its key is encrypted (`webapp.identity.signin.sealing`)."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="two_factor")
    sealed_key = models.TextField()
    last_step = models.BigIntegerField()  # time step of the newest code that was used: none is taken twice
    failures = models.PositiveIntegerField(default=0)  # wrong codes in a row
    failed_at = models.DateTimeField(null=True)
    confirmed_at = models.DateTimeField(auto_now_add=True)


class RecoveryCode(models.Model):
    """One of ten codes for who lost the app; only its keyed digest is stored, and it is deleted when it is used."""

    two_factor = models.ForeignKey(TwoFactor, on_delete=models.CASCADE, related_name="codes")
    digest = models.CharField(max_length=64)

    class Meta:
        unique_together = [("two_factor", "digest")]


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

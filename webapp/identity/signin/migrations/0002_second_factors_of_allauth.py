"""Keys of apps and recovery codes of 0.1.0 become django-allauth's; its own tables stay for the release before, unused.

Can be run twice: who has an app in the new table keeps that.
"""

import base64
import hashlib

import django.db.models.deletion
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import migrations, models


def _box_of_0_1_0():
    keys = (
        hashlib.sha256(b"headroom two-factor\0" + str(key).encode()).digest()
        for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    )
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in keys])


def carry(apps, editor):
    from webapp.identity.signin.adapters import MfaAdapter

    Authenticator = apps.get_model("mfa", "Authenticator")
    box, encrypt = _box_of_0_1_0(), MfaAdapter().encrypt
    have = Authenticator.objects.filter(type="totp").values("user")
    for old in apps.get_model("signin", "TwoFactor").objects.exclude(user__in=have).prefetch_related("codes"):
        try:
            secret = encrypt(base64.b32encode(box.decrypt(old.sealed_key.encode())).decode())
        except (
            InvalidToken
        ):  # of a SECRET_KEY that is gone: no code fits, as before (`manage.py reset_two_factor`)
            secret = old.sealed_key
        failed_at = old.failed_at.timestamp() if old.failed_at else None
        data = {
            "secret": secret,
            "last_step": old.last_step,
            "failures": old.failures,
            "failed_at": failed_at,
        }
        Authenticator.objects.create(user_id=old.user_id, type="totp", data=data, created_at=old.confirmed_at)
        # Of a code only its keyed digest is known: `second_factor` looks for that.
        codes = [encrypt(code.digest) for code in old.codes.order_by("pk")]
        data = {"migrated_codes": codes, "viewed_at": old.confirmed_at.timestamp()}
        Authenticator.objects.create(
            user_id=old.user_id, type="recovery_codes", data=data, created_at=old.confirmed_at
        )


class Migration(migrations.Migration):
    dependencies = [
        ("signin", "0001_initial"),
        ("mfa", "0003_authenticator_type_uniq"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(carry, migrations.RunPython.noop, elidable=True),
        # Without its model nothing deletes the row with its person; so it holds no person back.
        migrations.AlterField(
            model_name="twofactor",
            name="user",
            field=models.OneToOneField(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="two_factor",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.DeleteModel("RecoveryCode"), migrations.DeleteModel("TwoFactor")]
        ),
    ]

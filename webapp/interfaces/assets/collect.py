"""Collecting the assets at the start of a stack: seconds the first time, nothing where no source changed."""

from pathlib import Path

from django.conf import settings
from django.core.management import call_command

from webapp.interfaces.assets.sources import IGNORED, is_collected


def collect_assets() -> bool:
    """Copy, hash and compress every asset into STATIC_ROOT; False where that is done already.

    Files of an earlier version stay: a page that is open may still ask for them.
    """
    folder = Path(settings.STATIC_ROOT)
    if is_collected(folder):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=list(IGNORED))
    return True

"""A file goes with its row, whatever deleted that: the run, its project, or somebody."""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete
from django.dispatch import receiver

from webapp.record.artifacts import store
from webapp.record.artifacts.models import Artifact


@receiver(post_delete, sender=Artifact)
def remove_file(instance: Artifact, **_: Any) -> None:
    if instance.key:  # of a project that is being imported, rows come before their files
        transaction.on_commit(partial(store.remove_file, instance.run_id, instance.key))

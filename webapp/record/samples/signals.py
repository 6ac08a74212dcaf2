"""A file goes with its row, whatever deleted that: the run, its project, or a later spread over the steps."""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete
from django.dispatch import receiver

from webapp.record.samples import store
from webapp.record.samples.models import SampleFile


@receiver(post_delete, sender=SampleFile)
def remove_file(instance: SampleFile, **_: Any) -> None:
    transaction.on_commit(partial(store.remove_file, instance.run_id, instance.kind, instance.step))

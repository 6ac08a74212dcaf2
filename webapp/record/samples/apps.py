from functools import partial
from typing import Any

from django.apps import AppConfig
from django.db import transaction
from django.db.models.signals import post_delete


class SamplesConfig(AppConfig):
    name = "webapp.record.samples"

    def ready(self) -> None:
        post_delete.connect(remove_file, sender=self.get_model("SampleFile"))


def remove_file(instance: Any, **_: Any) -> None:
    """A file goes with its row, whatever deleted that: the run, its project, or a later spread over the steps."""
    from webapp.record.samples import store

    transaction.on_commit(partial(store.remove_file, instance.run_id, instance.kind, instance.step))

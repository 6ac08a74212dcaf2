from functools import partial
from typing import Any

from django.apps import AppConfig
from django.db import transaction
from django.db.models.signals import post_delete


class ArtifactsConfig(AppConfig):
    name = "webapp.record.artifacts"

    def ready(self) -> None:
        post_delete.connect(remove_file, sender=self.get_model("Artifact"))


def remove_file(instance: Any, **_: Any) -> None:
    """A file goes with its row, whatever deleted that: the run, its project, or somebody."""
    from webapp.record.artifacts import store

    if instance.key:  # of a project that is being imported, rows come before their files
        transaction.on_commit(partial(store.remove_file, instance.run_id, instance.key))

"""Files that a run's trainer gave away: what is known of each. `webapp.record.artifacts.store` has the files."""

from django.db import models

from webapp.record.runs.models import Run


class Artifact(models.Model):
    """One file of a run under its path within the run. What comes again under the same path takes its place."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artifacts", db_index=False)
    path = models.CharField(max_length=500)
    key = models.CharField(max_length=80)  # name of its file on the disk, which nobody but us chooses
    size = models.BigIntegerField()  # bytes
    sha256 = models.CharField(max_length=64)  # of the content, in hex
    created_at = models.DateTimeField(auto_now=True)  # when this content came

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "path"], name="artifact_path_unique")]
        ordering = ["path"]

    def __str__(self) -> str:
        return self.path

"""Which samples of a run there are. Responses lie in Parquet files (`webapp.record.samples.store`)."""

from django.db import models

from webapp.record.runs.models import Run


class SampleFile(models.Model):
    """The samples of one step. What comes again of the same step and kind takes their place."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="samples", db_index=False)
    kind = models.CharField(max_length=5)  # eval, train
    step = models.BigIntegerField()
    attempt = models.PositiveIntegerField()
    rows = models.PositiveIntegerField()  # responses
    left_out = models.PositiveIntegerField(default=0)  # responses that came beyond what a file takes
    size = models.BigIntegerField()  # bytes; 0: the file was removed by the project's policy
    # Prompt id -> {"text", "difficulty", "rewards", "correct"} (`training.samples.by_prompt`): a prompt is followed
    # over the steps without a file being opened.
    prompts = models.JSONField()
    created_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "kind", "step"], name="sample_file_once")]
        ordering = ["kind", "step"]

    def __str__(self) -> str:
        return f"{self.kind} {self.step}"

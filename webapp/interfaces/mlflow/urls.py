"""Addresses of MLflow's protocol, below /api/2.0/mlflow/, and of its artifacts, below /api/2.0/mlflow-artifacts/."""

from django.urls import path, re_path

from webapp.interfaces.mlflow import experiments, logged_models, runs
from webapp.interfaces.mlflow.protocol import nothing_here

urlpatterns = [
    path("experiments/create", experiments.create),
    path("experiments/get", experiments.get),
    path("experiments/get-by-name", experiments.get_by_name),
    path("experiments/search", experiments.search),
    path("experiments/update", experiments.update),
    path("experiments/delete", experiments.delete),
    path("experiments/restore", experiments.restore),
    path("experiments/set-experiment-tag", experiments.set_tag),
    path("experiments/delete-experiment-tag", experiments.delete_tag),
    path("runs/create", runs.create),
    path("runs/get", runs.get),
    path("runs/update", runs.update),
    path("runs/delete", runs.delete),
    path("runs/restore", runs.restore),
    path("runs/search", runs.search),
    path("runs/log-metric", runs.log_metric),
    path("runs/log-parameter", runs.log_parameter),
    path("runs/set-tag", runs.set_tag),
    path("runs/delete-tag", runs.delete_tag),
    path("runs/log-model", runs.log_model),
    path("runs/log-batch", runs.log_batch),
    path("runs/log-inputs", runs.accept_unkept),
    path("runs/outputs", runs.accept_unkept),
    path("metrics/get-history", runs.get_history),
    path("metrics/get-history-bulk-interval", runs.get_history_bulk_interval),
    path("artifacts/list", logged_models.list_artifacts),
    path("logged-models", logged_models.create),
    path("logged-models/search", logged_models.search),
    path(
        "logged-models/<str:model_id>",
        logged_models.by_method(get=logged_models.get, patch=logged_models.finalize),
    ),
    path("logged-models/<str:model_id>/tags", logged_models.set_tags),
    path("logged-models/<str:model_id>/tags/<str:key>", logged_models.delete_tag),
    path("logged-models/<str:model_id>/params", logged_models.log_params),
    re_path(r"^(?P<rest>.*)$", nothing_here),
]
artifact_patterns = [
    path("artifacts", logged_models.artifacts),
    path("artifacts/<path:path>", logged_models.artifacts),
    re_path(r"^(?P<rest>(?s:.*))\Z", nothing_here),
]

"""Addresses of trackio's protocol; MLflow's clients ask for the first two as well."""

from django.urls import path

from webapp.interfaces.routes import EVERYBODY, TOKEN, Need, declare, route
from webapp.interfaces.trackio import views

WITH_TOKEN = [
    path("api/get_runs_for_project", views.get_runs_for_project),
    path("api/get_run_summary", views.get_run_summary),
    path("api/bulk_log", views.bulk_log),
    path("api/bulk_log_system", views.bulk_log_system),
    path("api/bulk_alert", views.bulk_alert),
    path("api/upload", views.upload),
    path("api/bulk_upload_media", views.bulk_upload_media),
    path("api/check_artifact_blobs", views.check_artifact_blobs),
    path("api/bulk_upload_artifact_blob", views.bulk_upload_artifact_blob),
    path("api/artifact_log", views.artifact_log),
    path("api/get_artifact_manifest", views.get_artifact_manifest),
    path("api/log_artifact_use", views.log_artifact_use),
    path("artifact_blob/<str:project>/<str:digest>", views.artifact_blob, name="tracker-blob"),
]
urlpatterns = [
    # What clients of MLflow and trackio ask before they send a token.
    route("version", views.version, "tracker-version", Need(EVERYBODY)),
    route("health", views.health, "tracker-health", Need(EVERYBODY)),
    *declare(WITH_TOKEN, Need(TOKEN, TOKEN)),
]

"""Addresses of trackio's protocol; MLflow's clients ask for the first two as well."""

from django.urls import path

from webapp.interfaces.trackio import views

urlpatterns = [
    path("version", views.version, name="tracker-version"),
    path("health", views.health, name="tracker-health"),
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

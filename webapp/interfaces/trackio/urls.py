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
]

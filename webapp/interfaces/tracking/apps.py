from django.apps import AppConfig


class TrackingConfig(AppConfig):
    name = "webapp.interfaces.tracking"

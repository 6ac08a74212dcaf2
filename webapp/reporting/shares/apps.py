from django.apps import AppConfig


class SharesConfig(AppConfig):
    name = "webapp.reporting.shares"

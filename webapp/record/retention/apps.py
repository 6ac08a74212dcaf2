from django.apps import AppConfig


class RetentionConfig(AppConfig):
    name = "webapp.record.retention"

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "webapp.identity.audit"

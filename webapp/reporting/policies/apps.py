from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    name = "webapp.reporting.policies"

from django.apps import AppConfig


class SecretsConfig(AppConfig):
    name = "webapp.secrets"

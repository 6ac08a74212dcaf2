from django.apps import AppConfig


class SecretsConfig(AppConfig):
    name = "webapp.identity.secrets"

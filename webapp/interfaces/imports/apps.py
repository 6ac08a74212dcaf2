from django.apps import AppConfig


class ImportsConfig(AppConfig):
    name = "webapp.interfaces.imports"

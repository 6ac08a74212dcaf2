from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "webapp.interfaces.pages"

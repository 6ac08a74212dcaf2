from django.apps import AppConfig


class DecisionsConfig(AppConfig):
    name = "webapp.science.decisions"

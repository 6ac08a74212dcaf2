from django.apps import AppConfig


class PredictionsConfig(AppConfig):
    name = "webapp.science.predictions"

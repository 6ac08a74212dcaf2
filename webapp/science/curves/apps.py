from django.apps import AppConfig


class CurvesConfig(AppConfig):
    name = "webapp.science.curves"

from django.apps import AppConfig


class SavedViewsConfig(AppConfig):
    name = "webapp.record.savedviews"

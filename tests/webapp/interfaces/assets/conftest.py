"""Assets as a started stack has them: collected once a session, hashed and compressed."""

import os

import pytest
from django.contrib.staticfiles import storage as staticfiles
from django.core.files.storage import storages
from django.test import override_settings

from webapp.interfaces.assets import collect_assets


@pytest.fixture(scope="session")
def collected_folder(tmp_path_factory):
    """A STATIC_ROOT that was collected into."""
    folder = tmp_path_factory.mktemp("static")
    before = os.umask(0o077)  # as `stack.environment.keep_private`
    with override_settings(STATIC_ROOT=folder):
        _forget_storage()
        assert collect_assets()
    os.umask(before)
    _forget_storage()
    return folder


@pytest.fixture
def collected(collected_folder, settings):
    """The settings of a stack whose assets are collected; pages and WhiteNoise use them."""
    settings.STATIC_ROOT = collected_folder
    _forget_storage()
    yield collected_folder
    _forget_storage()


def _forget_storage() -> None:
    """Django makes the storage once and keeps it."""
    storages._storages.pop("staticfiles", None)
    staticfiles.staticfiles_storage._wrapped = staticfiles.ConfiguredStorage()._wrapped

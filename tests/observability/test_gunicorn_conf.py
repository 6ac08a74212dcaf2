import importlib
import json
import logging

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from observability import gunicorn_conf, logs


@pytest.fixture(autouse=True)
def _loggers_as_before():
    kept = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in (
        logging.getLogger(), logging.getLogger("gunicorn.error"), logging.getLogger("gunicorn.access")
    )]  # fmt: skip
    yield
    for logger, handlers, level, propagate in kept:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def configured(monkeypatch, form):
    monkeypatch.setenv(logs.VARIABLE, form)
    module = importlib.reload(gunicorn_conf)
    config = Config()
    for name in ("accesslog", "access_log_format", "logconfig_dict"):
        if hasattr(module, name):
            config.set(name, getattr(module, name))
    return Logger(config), config


def test_as_json_its_own_lines_have_our_form_and_requests_are_left_to_the_application(monkeypatch, capfd):
    logger, config = configured(monkeypatch, "json")

    logger.info("Booting worker")

    lines = capfd.readouterr().err.splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["Booting worker"]
    assert config.accesslog is None and not logger.access_log.isEnabledFor(logging.INFO)
    del gunicorn_conf.logconfig_dict


def test_as_text_its_line_of_a_request_names_the_id(monkeypatch):
    logger, config = configured(monkeypatch, "text")

    assert config.accesslog == "-" and "%({x-request-id}o)s" in config.access_log_format

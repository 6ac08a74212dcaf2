"""The Celery application of `celery -A worker.beat beat`: it asks for tasks by name and needs none of their code."""

from worker.app import app

app.conf.include = []

"""The local stack: embedded PostgreSQL and Redis, Ray, Celery and the web server, started and supervised.

`environment` says where the parts are: an environment variable where one is set, else the embedded part.
"""

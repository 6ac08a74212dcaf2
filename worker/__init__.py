"""The Celery worker: hands runs to Ray Jobs, keeps the store in step with Ray, refits curves.

PostgreSQL is the truth; the broker holds only hints that may be lost, since `worker.reconcile` finds the work again.
"""

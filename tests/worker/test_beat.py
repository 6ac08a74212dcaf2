"""What the process that asks for tasks now and then has to know."""

import subprocess
import sys

STARTED = """
import sys
from worker.beat import app
app.loader.init_worker()
app.finalize()
assert set(app.conf.beat_schedule) == {"reconcile", "clean-up"}, app.conf.beat_schedule
assert not {"worker.tasks", "scipy", "numpy"} & set(sys.modules)
"""


def test_beat_has_the_schedule_and_none_of_the_code_of_its_tasks():
    """It shares the cores with web server and worker while all of them start."""
    subprocess.run([sys.executable, "-c", STARTED], check=True)

"""`python -m training` with actors that know no torch: its driver, Ray, signals, files and exit status are real.

With QUICK_PULSE=1 a silent head is given up after seconds.
"""

import os
import runpy

from tests.training.cluster.hash_actors import HashGeneratorActor, HashTrainerActor
from training.cluster.cluster import Cluster
from training.cluster.placement import Pulse

Cluster.generator_class, Cluster.trainer_class = HashGeneratorActor, HashTrainerActor
if os.environ.get("QUICK_PULSE") == "1":
    Cluster.pulse = Pulse(every=0.5, answer=2.0, local=3.0)
runpy.run_module("training", run_name="__main__")

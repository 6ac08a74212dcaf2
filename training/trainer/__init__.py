"""How an update is made: the trainer, its networks and optimiser, batches and micro-batches, one rank or several."""

"""Studies of many real runs: the file that says beforehand what is asked, and the runs that answer it, one by one.

file    what a study file may say, each error with its line
plan    which runs that means, each once, in the order of their training
folder  what is on disk of a run: whether it began, ended, failed
process one training as a process, and the end of all that belongs to it
runner  one run after the other, going on where the last start ended
corpus  what has come of them, in two Parquet files that can be committed
"""

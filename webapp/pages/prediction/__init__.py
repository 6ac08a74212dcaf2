"""The pages of predictions, as data: what is claimed in words, the frozen curve as a figure, threads, lists, calibration."""

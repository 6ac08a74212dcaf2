"""The pages of predictions, as data: claims in words, the frozen curve as a figure, threads, lists, calibration."""

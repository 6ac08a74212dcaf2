"""The rules that watch the metrics of every run: the defaults, and what a setting changes in them."""

"""What the curves say: fits and forecasts, predictions, decisions, studies."""

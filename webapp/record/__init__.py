"""What was run and reported: recipes, runs with their logs, points, rules and retention."""

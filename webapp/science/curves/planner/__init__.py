"""What compute buys: for recipes and for single runs."""

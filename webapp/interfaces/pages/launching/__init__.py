"""The launch form: settings out of the recipe's schema, the text beside them, checks, costs and waits."""

"""What every part of the server stands on: errors, limits, mail, words for amounts. Imports no other package of it."""

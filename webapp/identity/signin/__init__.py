"""Signing in: two-factor, passwords, sessions, rate limits, OpenID Connect."""

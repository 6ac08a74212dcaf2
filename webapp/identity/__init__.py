"""Who people are and what they may do: accounts, sign-in, the audit log, secrets of projects."""

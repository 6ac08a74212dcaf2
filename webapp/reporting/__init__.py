"""What people are told: alarms, alerts, policies, status, reports, shared links."""

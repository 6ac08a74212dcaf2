"""What keeps an installation running: metrics, backups, moves, commands of the operator."""

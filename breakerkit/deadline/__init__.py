"""What a limit in time decides: how long, what is counted, and work in threads of its own."""

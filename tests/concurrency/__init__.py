"""Threads, tasks, loops and forks: each test makes the very moment it is about, none waits for luck."""

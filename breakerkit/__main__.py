"""``python -m breakerkit``: the command line."""

from breakerkit.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

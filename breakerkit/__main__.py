"""``python -m breakerkit``: the same as the command ``breakerkit``."""

import sys

from breakerkit.cli import main

sys.exit(main())

"""`python -m tmol_plugin <step>`: see cli."""

import sys

from tmol_plugin.cli import main

sys.exit(main())

"""`python -m ablate ARGUMENTS` -> the same as `ablate ARGUMENTS`."""

import sys

from ablate.cli import main

sys.exit(main())

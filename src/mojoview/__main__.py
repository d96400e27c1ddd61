"""`python -m mojoview`: the command line."""

import sys

from mojoview.cli.main import main

sys.exit(main())

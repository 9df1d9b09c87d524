"""``python -m zeroulp.client``: the command line, where the script is not on the path."""

import sys

from zeroulp.client.cli import main

sys.exit(main())

"""``python -m slo_exporter``."""

import sys

from slo_exporter.cli.main import main

sys.exit(main())

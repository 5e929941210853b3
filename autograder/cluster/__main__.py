"""Print what the suite of an assignment is, for a process that does not load torch itself."""

import json
import sys

from . import describe

print(json.dumps(describe(sys.argv[1])))

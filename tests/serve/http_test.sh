#!/bin/bash
# `trainyard serve` over HTTP: test_serve.py in pytest.
#
#   tests/serve/http_test.sh BUILD
#
# Exit code 77: skipped, because pytest is not installed.
set -euo pipefail

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if ! /usr/bin/python3 -c "import pytest" 2>/dev/null; then
  echo "SKIPPED: the server of \`trainyard serve\` was NOT tested: pytest is not installed (apt install python3-pytest)" >&2
  exit 77
fi
TRAINYARD_COMMAND=$(realpath "$1")/trainyard PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 -m pytest -q \
  -p no:cacheprovider "$tree/tests/serve/test_serve.py" "${@:2}"

#!/usr/bin/env bash
# Runs real client libraries against a relay: nostr-tools (npm) and nostr-sdk (PyPI). Without
# RELAY_URL it builds this relay and starts it on a free port with data in a temporary folder.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/prerequisites.sh node:nodejs npm:npm python3:python3 python3/ensurepip:python3-venv
if [ "$(node -p 'parseInt(process.versions.node) >= 20')" != true ]; then
  echo "The client tests need Node.js 20 or later; this is $(node --version)." >&2
  exit 1
fi

clients=$PWD/tests/clients
python=$PWD/target/clients/python
(cd "$clients/nostr-tools" && npm ci --no-audit --no-fund --loglevel=error)
[ -x "$python/bin/python" ] || python3 -m venv "$python"
"$python/bin/pip" install --quiet --disable-pip-version-check -r "$clients/nostr-sdk/requirements.txt"

if [ -z "${RELAY_URL:-}" ]; then
  cargo build --locked -p hikyaku
  data=$(mktemp -d)
  port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => {
    console.log(s.address().port); s.close() })')
  target/debug/hikyaku serve --data "$data/store" --listen "127.0.0.1:$port" 2>"$data/log" &
  relay=$!
  finish() {
    status=$?
    kill "$relay" 2>/dev/null || true
    wait "$relay" 2>/dev/null || true
    [ $status -eq 0 ] || { echo "The relay said:"; tail -n 50 "$data/log"; } >&2
    rm -rf "$data"
  }
  trap finish EXIT
  until grep -q "127.0.0.1:$port" "$data/log"; do
    kill -0 "$relay" 2>/dev/null || { echo "The relay did not start." >&2; exit 1; }
    sleep 0.1
  done
  export RELAY_URL=ws://127.0.0.1:$port
fi

failed=0
echo "nostr-tools against $RELAY_URL"
(cd "$clients/nostr-tools" && node --test --test-reporter=spec) || failed=1
echo "nostr-sdk against $RELAY_URL"
"$python/bin/python" "$clients/nostr-sdk/test_relay.py" || failed=1
exit $failed

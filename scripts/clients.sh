#!/usr/bin/env bash
# Runs real client libraries against a relay: nostr-tools (npm) and nostr-sdk (PyPI), and against a
# table server: memcached (npm), pymemcache, and, where Python 2.7 is installed, pytyrant and pyrant
# (PyPI). Without RELAY_URL it builds this relay and starts it on a free port with data in a temporary
# folder; so it does with the table server, without TABLES_ADDRESS (host:port).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/prerequisites.sh node:nodejs npm:npm python3:python3 python3/ensurepip:python3-venv
if [ "$(node -p 'parseInt(process.versions.node) >= 20')" != true ]; then
  echo "The client tests need Node.js 20 or later; this is $(node --version)." >&2
  exit 1
fi

clients=$PWD/tests/clients
python=$PWD/target/clients/python
for package in nostr-tools memcached; do
  (cd "$clients/$package" && npm ci --no-audit --no-fund --loglevel=error)
done
[ -x "$python/bin/python" ] || python3 -m venv "$python"
"$python/bin/pip" install --quiet --disable-pip-version-check \
  -r "$clients/nostr-sdk/requirements.txt" -r "$clients/pymemcache/requirements.txt"

[ -n "${RELAY_URL:-}" ] && [ -n "${TABLES_ADDRESS:-}" ] || cargo build --locked -p hikyaku
data=$(mktemp -d)
started=()
finish() {
  status=$?
  for pid in "${started[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  [ $status -eq 0 ] || { echo "The servers said:"; tail -n 50 "$data"/*.log; } >&2
  rm -rf "$data"
}
trap finish EXIT

# listens LOG: waits until the server started last says where it listens, and prints that.
listens() {
  until grep -qE '127\.0\.0\.1:[0-9]+' "$1"; do
    kill -0 "${started[-1]}" 2>/dev/null || { echo "The server did not start." >&2; exit 1; }
    sleep 0.1
  done
  grep -oE '127\.0\.0\.1:[0-9]+' "$1" | head -n 1
}

if [ -z "${RELAY_URL:-}" ]; then
  target/debug/hikyaku serve --data "$data/store" --listen 127.0.0.1:0 2>"$data/relay.log" &
  started+=($!)
  address=$(listens "$data/relay.log")
  export RELAY_URL=ws://$address
fi
hash_address=
if [ -z "${TABLES_ADDRESS:-}" ]; then
  # The commonest default of Tokyo Tyrant's servers, for its clients; then the one that is for all.
  for default in 'cache.hash?durability=none' '*'; do
    log=$data/tables-${default//[^a-z]/}.log
    target/debug/hikyaku tables serve --folder "${log%.log}" --listen 127.0.0.1:0 \
      --open "cache=$default" --open 'seen=seen.fixed?width=16' 2>"$log" &
    started+=($!)
    hash_address=${TABLES_ADDRESS:-}
    TABLES_ADDRESS=$(listens "$log")
  done
  export TABLES_ADDRESS
fi

failed=0
echo "nostr-tools against $RELAY_URL"
(cd "$clients/nostr-tools" && node --test --test-reporter=spec) || failed=1
echo "nostr-sdk against $RELAY_URL"
"$python/bin/python" "$clients/nostr-sdk/test_relay.py" || failed=1
echo "memcached (npm) against $TABLES_ADDRESS"
(cd "$clients/memcached" && node --test --test-reporter=spec) || failed=1
echo "pymemcache against $TABLES_ADDRESS"
"$python/bin/python" "$clients/pymemcache/test_tables.py" || failed=1
if "${PYTHON2:=python2.7}" -c '' 2>/dev/null; then
  echo "pytyrant and pyrant against $TABLES_ADDRESS"
  "$python/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-compile --upgrade \
    --target "$PWD/target/clients/tyrant" -r "$clients/tyrant/requirements.txt"
  for address in "$TABLES_ADDRESS" $hash_address; do
    TABLES_ADDRESS=$address PYTHONPATH=$PWD/target/clients/tyrant \
      "$PYTHON2" "$clients/tyrant/test_tables.py" || failed=1
  done
else
  echo "skipped: pytyrant and pyrant, which are for Python 2.7 (PYTHON2 can say where it is)"
fi
exit $failed

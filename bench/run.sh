#!/usr/bin/env bash
# Repeats one measurement, or all of them, on this machine: builds what it needs, starts relays on
# loopback with data under target/bench, measures, stops them. Tables go to standard output, JSON to
# target/bench/results.
#
# usage: bench/run.sh ROW...     rows: publish rust-nostr latency fanout query scale mixed disk idle start
#                              tables measuring instructions http nodes all
# environment: EVENTS (1000000), FEW (100000): the sizes of the larger and the smaller corpus
#              BUILT: if set, nothing is built: what is there already is measured
set -euo pipefail
cd "$(dirname "$0")/.."

events=${EVENTS:-1000000}
few=${FEW:-100000}
# Relative: reports tell their command, and are kept.
work=target/bench
results=$work/results
hikyaku=target/release/hikyaku
bench="$hikyaku bench"
# What each server's OK of an event means, for the reports.
ours="synced to the disk"
mkdir -p "$results"
started=()

finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
  started=()
}
trap finish EXIT

build() {
  [ -z "${BUILT:-}" ] || return 0
  cargo build --release --locked -p hikyaku
}

build_khatru() {
  [ -z "${BUILT:-}" ] || return 0
  command -v go >/dev/null || { echo "khatru needs Go (Debian: golang-go, 1.25 or later)" >&2; exit 1; }
  (cd bench/peers/khatru && go build -o "$OLDPWD/$work/khatru" .)
}

build_rust_nostr() {
  [ -z "${BUILT:-}" ] || return 0
  (cd bench/peers/rust-nostr && CARGO_TARGET_DIR="$OLDPWD/$work/rust-nostr-target" cargo build --release --locked)
}

build_http() {
  [ -z "${BUILT:-}" ] || return 0
  cargo build --release --locked -p hikyaku-server --features testing --example string_route
  (cd bench/peers/http && CARGO_TARGET_DIR="$OLDPWD/$work/http-target" cargo build --release --locked)
}

# What `bench generate` makes for a seed: another number when that changes, so that no old corpus is taken.
shape=2

# Prints the file with a corpus of so many events, made if it is not there.
corpus() {
  local file=$work/corpus-$shape-$1.jsonl
  if [ ! -f "$file" ]; then
    $bench generate --events "$1" >"$file.new"
    mv "$file.new" "$file"
  fi
  echo "$file"
}

# listening PORT: waits until something accepts connections there.
listening() {
  for _ in $(seq 600); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "nothing listens on port $1; see $work/*.log" >&2
  exit 1
}

# serve PORT FOLDER: our relay, with its metrics a thousand ports higher.
serve() {
  HIKYAKU_METRICS_LISTEN=127.0.0.1:$(($1 + 1000)) "$hikyaku" serve --data "$2" --listen "127.0.0.1:$1" 2>"$2.log" &
  started+=($!)
  listening "$1"
}

# serve_khatru PORT FOLDER: khatru on Badger.
serve_khatru() {
  "$work/khatru" --data "$2" --listen "127.0.0.1:$1" 2>"$2.log" &
  started+=($!)
  listening "$1"
}

# serve_rust_nostr PORT FOLDER: rust-nostr's relay on LMDB.
serve_rust_nostr() {
  "$work/rust-nostr-target/release/rust-nostr-relay" "$2" "$1" 2>"$2.log" &
  started+=($!)
  listening "$1"
}

# An empty folder of this name.
empty() {
  rm -rf "${work:?}/$1"
  mkdir -p "$work/$1"
  echo "$work/$1"
}

# stored EVENTS: prints the folder of a store with that corpus, filled if it is not.
stored() {
  local folder=$work/store-$shape-$1
  if [ ! -f "$folder.filled" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    "$hikyaku" import --data "$folder" "$(corpus "$1")" >&2
    touch "$folder.filled"
  fi
  echo "$folder"
}

# khatru looks at every stored deletion for each event it gets, so that a corpus with deletions would
# flatter us: both get it without. Of replaceable events that arrive together it may keep two, events
# with two of the tags asked for come twice, and a hashtag's beginning is answered like the hashtag.
publish() {
  build_khatru
  serve 17777 "$(empty publish)"
  serve_khatru 17778 "$(empty publish-khatru)"
  $bench relay ws://127.0.0.1:17777 --vs ws://127.0.0.1:17778 --phases publish \
    --without-kind 5 --free-ties --one-by-one \
    --without-shape 'engagement of 70 notes' \
    --without-shape 'hashtag' \
    --events 5000 --operations 10000 --durability "$ours" \
    --vs-durability "in memory; Badger syncs later" --json "$results/publish.json"
  finish
}

rust-nostr() {
  build_rust_nostr
  serve 17777 "$(empty rust-nostr)"
  serve_rust_nostr 17778 "$(empty rust-nostr-peer)"
  $bench relay ws://127.0.0.1:17777 --vs ws://127.0.0.1:17778 --phases publish,query \
    --without-shape 'hashtag within follows' --events 5000 --operations 10000 --durability "$ours" --vs-durability "$ours" \
    --json "$results/rust-nostr.json"
  finish
}

# A string by a plugin's route, and by others, each on one worker: kept connections, and new ones after
# every ten requests.
http() {
  build_http
  ulimit -n 4096
  for peer in hyper actix ntex; do
    target/release/examples/string_route 17791 2>"$work/http.log" &
    started+=($!)
    "$work/http-target/release/$peer-string" 17792 2>"$work/http-$peer.log" &
    started+=($!)
    listening 17791
    listening 17792
    $bench http http://127.0.0.1:17791/hello --vs http://127.0.0.1:17792/hello \
      --connections 64,1024 --seconds 2 --json "$results/http-$peer.json"
    $bench http http://127.0.0.1:17791/hello --vs http://127.0.0.1:17792/hello \
      --connections 64 --reconnect 10 --seconds 2 --json "$results/http-$peer-reconnect.json"
    finish
  done
}

latency() {
  serve 17777 "$(empty latency)"
  $bench relay ws://127.0.0.1:17777 --phases publish --operations 10000 --disk "$work" \
    --durability "$ours" --json "$results/latency.json"
  finish
}

fanout() {
  serve 17777 "$(empty fanout)"
  $bench relay ws://127.0.0.1:17777 --phases subscribe --subscribers 200 --operations 20000 \
    --json "$results/fanout.json"
  finish
}

query() {
  local folder; folder=$(stored "$events")
  serve 17777 "$folder"
  $bench relay ws://127.0.0.1:17777 --corpus "$(corpus "$events")" --loaded --phases query \
    --questions 300 --json "$results/query.json"
  finish
}

# The same questions of a small store and of a large one.
scale() {
  local small large
  small=$(stored "$few")
  large=$(stored "$events")
  serve 17777 "$large"
  serve 17778 "$small"
  $bench relay ws://127.0.0.1:17777 --corpus "$(corpus "$events")" --loaded --phases query \
    --vs ws://127.0.0.1:17778 --vs-corpus "$(corpus "$few")" --questions 300 \
    --json "$results/scale.json"
  finish
}

mixed() {
  serve 17777 "$(empty mixed)"
  $bench relay ws://127.0.0.1:17777 --level auto --durability "$ours" --json "$results/mixed.json" \
    --html "$results/mixed.html"
  finish
}

disk() {
  local folder; folder=$(stored "$events")
  "$hikyaku" compact --data "$folder"
  $bench disk "$folder" "$(corpus "$events")" --json | tee "$results/disk.json"
}

idle() {
  ulimit -n "$(ulimit -Hn)"
  serve 17777 "$(empty idle)"
  $bench relay ws://127.0.0.1:17777 --phases idle --idle 10000 --json "$results/idle.json"
  finish
}

start() {
  local folder; folder=$(stored "$events")
  # A copy: what is published between the starts must not change what other rows measure.
  rm -rf "$work/start"
  cp -r "$folder" "$work/start"
  $bench start --server "$hikyaku" --data "$work/start" --json | tee "$results/start.json"
  rm -rf "$work/start"
}

# What it costs that the running server measures its requests: the same server, once told not to.
measuring() {
  local folder; folder=$(stored "$few")
  for copy in measured unmeasured; do
    rm -rf "${work:?}/$copy"
    cp -r "$folder" "$work/$copy"
  done
  serve 17777 "$work/measured"
  HIKYAKU_METRICS_REQUESTS=false serve 17778 "$work/unmeasured"
  $bench relay ws://127.0.0.1:17777 --vs ws://127.0.0.1:17778 --corpus "$(corpus "$few")" --loaded \
    --phases publish,query --operations 10000 --rounds 9 --durability "$ours" \
    --vs-durability "$ours" --json "$results/measuring.json"
  finish
}

# The same, counted: of the instructions of a server that measures its requests, those from the files
# that do so. Under valgrind it is fifty times slower: what the load's reports say of times means nothing.
instructions() {
  scripts/prerequisites.sh valgrind:valgrind python3:python3
  local relay; relay=$(empty instructions)
  HIKYAKU_WORKERS=1 valgrind --tool=callgrind --callgrind-out-file="$work/instructions.relay" \
    "$hikyaku" serve --data "$relay" --listen 127.0.0.1:17777 2>"$relay.log" &
  started+=($!)
  listening 17777
  $bench relay ws://127.0.0.1:17777 --phases publish,query --events 2000 --operations 3000 --rounds 1 \
    --seconds 200 --patience 100 --rate 20
  finish
  valgrind --tool=callgrind --callgrind-out-file="$work/instructions.tables" \
    "$hikyaku" tables serve --folder "$(empty instructions-tables)" --listen 127.0.0.1:17811 \
    --workers 1 --open 'numbers=numbers.fixed?width=8&limit=128m' 2>"$relay.log" &
  started+=($!)
  listening 17811
  $bench tables 127.0.0.1:17811 --distribution sequential --keys 100000 --value-bytes 8 \
    --parts noreply-packed --operations 1000000 --rounds 1 --seconds 100
  finish
  echo "the relay"
  bench/instructions.py "$work/instructions.relay" /observe/ /server/src/requests.rs
  echo "tables"
  bench/instructions.py "$work/instructions.tables" /observe/ /table-server/src/tally.rs \
    /table-server/src/timing.rs
}

# Both ends on one core: between cores, the time that a sleeping one needs to wake is what would be
# measured. Nothing of the peers goes to a disk.
tables() {
  scripts/prerequisites.sh memcached:memcached redis-server:redis-server taskset:util-linux
  local folder; folder=$(empty tables)
  taskset -c 0 "$hikyaku" tables serve --folder "$folder" --listen 127.0.0.1:17811 --workers 1 \
    --open 'numbers=numbers.fixed?width=8&limit=128m' \
    --open 'lists=lists.fixed?width=64&limit=1g' 2>"$folder.log" &
  started+=($!)
  local logged; logged=$(empty tables-logged)
  taskset -c 0 "$hikyaku" tables serve --folder "$logged" --listen 127.0.0.1:17814 --workers 1 \
    --open 'numbers=numbers.fixed?width=8&limit=128m' --log async 2>"$logged.log" &
  started+=($!)
  taskset -c 0 memcached -l 127.0.0.1 -p 17812 -U 0 -u nobody -t 1 -m 1024 2>"$folder-memcached.log" &
  started+=($!)
  taskset -c 0 redis-server --bind 127.0.0.1 --port 17813 --save '' --appendonly no \
    >"$folder-redis.log" &
  started+=($!)
  for port in 17811 17812 17813 17814; do listening $port; done
  local how=(--distribution sequential --keys 1000000 --value-bytes 8 --lists lists: \
    --durability "in memory" --vs-durability "in memory")
  taskset -c 0 $bench tables 127.0.0.1:17811 --vs 127.0.0.1:17812 "${how[@]}" \
    --parts set,set-many,noreply,noreply-packed,putnr-packed --json "$results/tables-memcached.json"
  taskset -c 0 $bench tables 127.0.0.1:17811 --vs redis://127.0.0.1:17813 "${how[@]}" \
    --parts set-pipelined,rotate --json "$results/tables-redis.json"
  # What the asynchronous update log leaves of the rate.
  for connections in 1 8 32; do
    taskset -c 0 $bench tables 127.0.0.1:17814 --vs 127.0.0.1:17811 "${how[@]}" \
      --parts noreply-packed-many --connections $connections \
      --json "$results/tables-logged-$connections.json"
  done
  finish
}

# Two nodes on a PostgreSQL of their own: notes published at one, 500 a second, until subscribers of both
# have them.
nodes() {
  scripts/prerequisites.sh python3:python3
  local bin folder as=() url=postgres://postgres@127.0.0.1:17790/postgres
  bin=$(dirname "$(find /usr/lib/postgresql/*/bin -name initdb | sort -V | tail -n 1)")
  folder=$(mktemp -d /tmp/hikyaku-bench.XXXXXX)
  if [ "$(id -u)" = 0 ]; then
    # PostgreSQL refuses to run as root.
    chown nobody "$folder"
    as=(setpriv --reuid nobody --regid nogroup --clear-groups)
  fi
  "${as[@]}" "$bin/initdb" -D "$folder/data" -A trust -U postgres -E UTF8 --locale=C >/dev/null
  printf '%s\n' "unix_socket_directories = '$folder'" 'shared_buffers = 1GB' 'port = 17790' \
    >>"$folder/data/postgresql.conf"
  "${as[@]}" "$bin/postgres" -D "$folder/data" >"$folder/log" 2>&1 &
  started+=($!)
  listening 17790
  HIKYAKU_STORE_URL=$url serve 17777 "$(empty nodes-1)"
  HIKYAKU_STORE_URL=$url serve 17778 "$(empty nodes-2)"
  local how=(127.0.0.1:17777 127.0.0.1:17778 "$(corpus "$few")" 0 5000 500)
  for _ in 1 2 3; do
    python3 scripts/node_latency.py "${how[@]}"
    how[3]=$((how[3] + 5000))
  done | tee "$results/nodes.txt"
  finish
  rm -rf "$folder"
}

[ $# -gt 0 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
[ "$1" != all ] || set -- publish rust-nostr latency fanout query scale mixed disk idle start tables measuring instructions http nodes
build
for row in "$@"; do
  case $row in
    publish | rust-nostr | latency | fanout | query | scale | mixed | disk | idle | start | tables | measuring | instructions | http | nodes) "$row" ;;
    *) echo "unknown row: $row" >&2; exit 2 ;;
  esac
done

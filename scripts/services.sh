# shellcheck shell=bash
# The private servers of a test run. Their folder is $REDRIVE_TEST_SERVICES; the server NAME
# lives in NAME/ inside: data, configuration, `log`, `port`, `pid` and `outcome`. Everything
# server-specific is in its group of functions below:
#
#   NAME_obtain    is it here, or can it be fetched? If not, prints why
#   NAME_create    makes data and configuration, listening on 127.0.0.1:$port
#   NAME_command   sets `command` to what runs it in the foreground
#   NAME_ready     succeeds once it answers
#   NAME_address   the variable that tells the tests where it is
#   NAME_signal    what asks it to shut down
#
# They run with $home, the server's folder, and $port set (`enter`).

servers=(postgres mariadb kafka pgbouncer pgbouncer_session)
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Postgres and MariaDB refuse to run as root.
unprivileged=()
if [ "$(id -u)" = 0 ]; then
    unprivileged=(setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups)
fi

# --- Postgres -------------------------------------------------------------------------

postgres_bin() { # the newest one's programs; Debian does not put them on the PATH
    local initdb
    initdb=$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -n 1)
    dirname "${initdb:-$(command -v initdb)}"
}

postgres_found() {
    [ -x "$(postgres_bin)/postgres" ]
}

postgres_obtain() {
    postgres_found || { echo 'the package postgresql could not be installed' && return 1; }
}

postgres_create() {
    local bin
    bin=$(postgres_bin)
    own_folder data
    "${unprivileged[@]}" "$bin/initdb" -D "$home/data" -U redrive -A trust -E UTF8 \
        --locale=C.UTF-8 || return
    cat >>"$home/data/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
max_connections = 400
CONF
    "${unprivileged[@]}" "$bin/postgres" --single -D "$home/data" postgres \
        <<<'CREATE DATABASE redrive'
}

postgres_command() {
    command=("${unprivileged[@]}" "$(postgres_bin)/postgres" -D "$home/data")
}

postgres_ready() {
    "$(postgres_bin)/psql" -X -q -c 'SELECT 1' "$(postgres_url)" >/dev/null 2>&1
}

postgres_url() {
    echo "postgres://redrive@127.0.0.1:$port/redrive"
}

postgres_address() {
    echo "REDRIVE_TEST_POSTGRES=$(postgres_url)"
}

postgres_signal() { # its "fast" shutdown: clients are cut off, not waited for
    echo INT
}

# --- MariaDB --------------------------------------------------------------------------

mariadb_found() {
    have mariadbd && have mariadb-install-db && have mariadb
}

mariadb_obtain() {
    mariadb_found || { echo 'the package mariadb-server-core could not be installed' && return 1; }
}

mariadb_create() {
    own_folder data
    own_folder tmp
    cat >"$home/init.sql" <<'SQL'
CREATE DATABASE IF NOT EXISTS redrive;
CREATE USER IF NOT EXISTS redrive@'127.0.0.1' IDENTIFIED BY 'redrive';
GRANT ALL ON *.* TO redrive@'127.0.0.1' WITH GRANT OPTION;
SQL
    # The socket's name is relative to the data, as a full path can be too long for one.
    # MariaDB alone would default to latin1; Debian's configuration says utf8mb4 too.
    cat >"$home/my.cnf" <<CONF
[mariadbd]
datadir = "$home/data"
tmpdir = "$home/tmp"
init-file = "$home/init.sql"
pid-file = "$home/data/mariadbd.pid"
socket = mariadbd.sock
bind-address = 127.0.0.1
port = $port
max-connections = 400
character-set-server = utf8mb4
skip-name-resolve
CONF
    # From inside the folder, as this program cannot be given a path with a space.
    (cd "$home" && TMPDIR=$home/tmp \
        "${unprivileged[@]}" mariadb-install-db --no-defaults --datadir=./data --skip-test-db)
}

mariadb_command() {
    command=("${unprivileged[@]}" mariadbd --defaults-file="$home/my.cnf")
}

mariadb_ready() {
    MYSQL_PWD=redrive mariadb --no-defaults --protocol=tcp --host=127.0.0.1 --port="$port" \
        --user=redrive --execute='SELECT 1' redrive >/dev/null 2>&1
}

mariadb_address() {
    echo "REDRIVE_TEST_MYSQL=mysql://redrive:redrive@127.0.0.1:$port/redrive"
}

mariadb_signal() {
    echo TERM
}

# --- Kafka: one node that is broker and controller (KRaft) ----------------------------

kafka_version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$scripts/kafka/pom.xml")
kafka_jars=${XDG_CACHE_HOME:-$HOME/.cache}/redrive/kafka-$kafka_version

kafka_cached() {
    [ -d "$kafka_jars" ]
}

kafka_obtain() {
    local java
    java=$(java_version)
    if [ "${java:-0}" -lt 17 ]; then
        echo "Kafka $kafka_version needs Java 17, this machine has ${java:-none}"
    elif ! kafka_cached && ! have mvn; then
        echo 'the package maven could not be installed'
    elif ! kafka_cached && ! kafka_download >>"$home/log" 2>&1; then
        echo "Maven could not fetch Kafka $kafka_version from Maven Central; its log is above"
    else
        return 0
    fi
    return 1
}

java_version() { # the major number
    java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'
}

kafka_download() {
    timeout --foreground 300 mvn -B -q -f "$scripts/kafka/pom.xml" \
        org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$home/jars" || return
    # Into place in one step: half a copy must not look like a whole one.
    local part
    mkdir -p "${kafka_jars%/*}" && part=$(mktemp -d "$kafka_jars.XXXXXX") || return
    cp "$home"/jars/*.jar "$part" && mv -T "$part" "$kafka_jars" && return
    rm -rf "$part"
    kafka_cached # another run's download may have come first
}

kafka_create() {
    mkdir -p "$home/data" "$home/tmp"
    free_port_after "$port"
    cat >"$home/server.properties" <<CONF
node.id=1
process.roles=broker,controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$free_port
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:$free_port
log.dirs=$home/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
CONF
    java -cp "$kafka_jars/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
        kafka.tools.StorageTool format -t redrive-test-cluster00 -c "$home/server.properties"
}

# Not unprivileged: root's cache of jars can only be read by root.
kafka_command() {
    local log=org.slf4j.simpleLogger
    command=(java -Xmx512m -XX:-UsePerfData -Djava.io.tmpdir="$home/tmp" -cp "$kafka_jars/*"
        "-D$log.showDateTime=true" "-D$log.dateTimeFormat=HH:mm:ss.SSS"
        "-D$log.defaultLogLevel=warn" "-D$log.log.kafka.server.KafkaRaftServer=info"
        kafka.Kafka "$home/server.properties")
}

kafka_ready() { # its port opens before it takes requests, so ask the log of this start
    tail -c "+$((log_size + 1))" "$home/log" | grep -q 'Kafka Server started'
}

kafka_address() {
    echo "REDRIVE_TEST_KAFKA=127.0.0.1:$port"
}

kafka_signal() {
    echo TERM
}

# --- PgBouncer: before the Postgres above, for every database of it --------------------
#
# `pgbouncer` is in transaction mode, with fewer connections than clients, and ignores the
# settings that a client begins with; `pgbouncer_session` is in session mode and refuses them.

pgbouncer_found() {
    have pgbouncer
}

pgbouncer_obtain() {
    if ! postgres_found; then
        echo 'there is no Postgres to put it before'
    elif ! pgbouncer_found; then
        echo 'the package pgbouncer could not be installed'
    else
        return 0
    fi
    return 1
}

pgbouncer_create() {
    pgbouncer_configure 'pool_mode = transaction' 'default_pool_size = 5' \
        'ignore_startup_parameters = extra_float_digits,options'
}

pgbouncer_configure() { # LINE...
    local postgres
    postgres=$(cat "$REDRIVE_TEST_SERVICES/postgres/port")
    echo '"redrive" ""' >"$home/users"
    cat >"$home/pgbouncer.ini" <<CONF
[databases]
* = host=127.0.0.1 port=$postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = trust
auth_file = $home/users
max_client_conn = 1000
server_login_retry = 1
CONF
    printf '%s\n' "$@" >>"$home/pgbouncer.ini"
}

pgbouncer_command() {
    command=("${unprivileged[@]}" pgbouncer "$home/pgbouncer.ini")
}

pgbouncer_ready() {
    postgres_ready # through this port
}

pgbouncer_address() {
    echo "REDRIVE_TEST_PGBOUNCER=$(postgres_url)"
}

pgbouncer_signal() {
    echo TERM
}

pgbouncer_session_obtain() { pgbouncer_obtain; }
pgbouncer_session_create() {
    pgbouncer_configure 'pool_mode = session' 'default_pool_size = 40'
}
pgbouncer_session_command() { pgbouncer_command; }
pgbouncer_session_ready() { pgbouncer_ready; }
pgbouncer_session_address() {
    echo "REDRIVE_TEST_PGBOUNCER_SESSION=$(postgres_url)"
}
pgbouncer_session_signal() { pgbouncer_signal; }

# --- every server ---------------------------------------------------------------------

is_server() {
    case " ${servers[*]} " in *" ${1:-?} "*) ;; *) return 1 ;; esac
}

enter() { # NAME
    name=$1
    home=$REDRIVE_TEST_SERVICES/$1
    port=$(cat "$home/port" 2>/dev/null)
}

make_all_servers() {
    local name
    for name in "${servers[@]}"; do
        mkdir -p "$REDRIVE_TEST_SERVICES/$name"
        free_port_after "${free_port:-$((10000 + RANDOM % 20000))}"
        echo "$free_port" >"$REDRIVE_TEST_SERVICES/$name/port"
        free_port=$((free_port + 1)) # Kafka takes a second one
    done
    for name in "${servers[@]}"; do
        make_server "$name" &
    done
    wait
}

make_server() { # NAME; leaves `ready`, `skipped` or `failed` in its folder, and why
    local reason
    enter "$1"
    SECONDS=0
    if ! reason=$("${name}_obtain"); then
        printf 'skipped\t%s\n' "$reason"
    elif ! "${name}_create" >>"$home/log" 2>&1; then
        printf 'failed\tcould not be set up\n'
    elif ! start_server "$name"; then
        printf 'failed\tdid not start\n'
    else
        printf 'ready\t127.0.0.1:%s, after %s s\n' "$port" "$SECONDS"
    fi >"$home/outcome"
}

server_outcome() { # NAME
    cat "$REDRIVE_TEST_SERVICES/$1/outcome" 2>/dev/null || printf 'failed\twas not set up\n'
}

addresses() { # of those that are ready, and of their folder
    echo "REDRIVE_TEST_SERVICES=$REDRIVE_TEST_SERVICES"
    local name
    for name in "${servers[@]}"; do
        enter "$name"
        case $(server_outcome "$name") in ready*) "${name}_address" ;; esac
    done
}

start_server() { # NAME; returns once it answers
    enter "$1"
    running && return
    local log_size pid
    log_size=$(wc -c <"$home/log")
    launch
    # Long: a broker with the topics of every suite takes its time on a busy machine.
    within 300 ready_or_dead && alive "$pid"
}

ready_or_dead() {
    "${name}_ready" || ! alive "$pid"
}

# In a session of its own, out of reach of the terminal's Ctrl-C. The process notes its own
# number before it becomes the server, so that none is ever started without a note.
launch() {
    local command
    "${name}_command"
    (
        cd "$home" && echo "$BASHPID" >pid &&
            exec setsid "${command[@]}" </dev/null >>log 2>&1
    ) &
    pid=$!
}

stop_server() { # NAME
    enter "$1"
    running || return 0
    local pid
    pid=$(cat "$home/pid")
    kill -s "$("${name}_signal")" "$pid"
    # A broker that is killed in mid-shutdown would have to recover every topic.
    within 120 dead "$pid" || kill_server "$1"
}

# With its children: a Postgres that lost only its head may still be finishing a query, and
# keeps the next one from starting.
kill_server() { # NAME
    enter "$1"
    running || return 0
    local pid children
    pid=$(cat "$home/pid")
    read -ra children < <(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
    kill -KILL "$pid" "${children[@]}" 2>/dev/null
    within 10 dead "$pid" "${children[@]}" || return
    # Postgres would take a dead process that nobody has waited for yet for a running one.
    rm -f "$home/data/postmaster.pid"
}

stop_all_servers() { # FOLDER
    local REDRIVE_TEST_SERVICES=$1 name
    for name in "${servers[@]}"; do
        stop_server "$name" &
    done
    wait
}

# A number can be used again by a stranger's process: ours has our folder in its arguments.
running() {
    local pid
    pid=$(cat "$home/pid" 2>/dev/null) && grep -qsaF "$home/" "/proc/$pid/cmdline"
}

alive() { # a zombie has no arguments any more
    grep -qsa . "/proc/$1/cmdline"
}

dead() { # PID...: all of them
    local pid
    for pid in "$@"; do
        ! alive "$pid" || return 1
    done
}

within() { # SECONDS COMMAND...: repeats the command until it succeeds
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

# Below the kernel's range for outgoing connections: a client that redials a stopped server
# could otherwise be given that very port as its own, and be connected to itself.
free_port_after() { # PORT; sets free_port
    free_port=$(($1 + 1))
    while (exec 3<>"/dev/tcp/127.0.0.1/$free_port") 2>/dev/null; do
        free_port=$((free_port + 1))
    done
}

own_folder() { # FOLDER in the server's own, for the account it runs as
    mkdir -p "$home/$1"
    [ ${#unprivileged[@]} = 0 ] || chown nobody: "$home/$1"
}

# As root, the folder must be within reach of the account the servers run as.
make_servers_folder() {
    local folder
    folder=$(mktemp -d "${TMPDIR:-/tmp}/redrive-test.XXXXXX") || return
    if [ ${#unprivileged[@]} != 0 ]; then
        chmod 711 "$folder"
        if ! "${unprivileged[@]}" test -x "$folder/."; then
            rmdir "$folder"
            folder=$(mktemp -d /tmp/redrive-test.XXXXXX) && chmod 711 "$folder" || return
        fi
    fi
    echo "$folder"
}

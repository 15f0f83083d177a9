# shellcheck shell=bash
# What the run needs from the machine: found, or else installed from Debian's packages.

have() { # COMMAND...
    command -v "$@" >/dev/null 2>&1
}

say() {
    printf '\n== %s\n' "$*" >&2
}

# What the C parts of our dependencies are built with, and curl, which tests call as readers of the docs do.
ensure_build_packages() {
    have gcc && have g++ && have make && have perl && have pkg-config && have curl &&
        pkg-config --exists openssl zlib && return
    install_packages gcc g++ make perl pkg-config curl libssl-dev zlib1g-dev
}

# One call per server, so that one that cannot be had does not cost the others.
ensure_server_packages() {
    postgres_found || install_packages postgresql
    mariadb_found || install_packages mariadb-server-core mariadb-client-core
    pgbouncer_found || install_packages pgbouncer
    have java || install_packages default-jre-headless
    kafka_cached || have mvn || install_packages maven
}

ensure_browser_packages() {
    { have chromium && have chromedriver; } || install_packages chromium chromium-driver
}

ensure_component() { # CARGO-COMMAND COMPONENT
    cargo "$1" --version >/dev/null 2>&1 && return
    have rustup && rustup component add "$2"
}

install_packages() { # PACKAGE...
    say "installing $*"
    if ! have apt-get; then
        echo "apt-get is not here: please install $* yourself" >&2
        return 1
    elif [ "$(id -u)" = 0 ]; then
        scripts/apt-install "$@" >&2
    elif have sudo; then
        sudo scripts/apt-install "$@" >&2
    else
        echo "neither root nor sudo: please install $* yourself" >&2
        return 1
    fi
}

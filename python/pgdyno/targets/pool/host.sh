#!/bin/bash
# Borrows a host for a run, and gives it back. pgdyno sends this script over SSH and runs it as root:
#   host.sh borrow RUN CLIENT    reads variables from standard input; prints `ready` and the server's certificate,
#                                `busy: …`, `unfit: …`, or `failed: …`
#   host.sh look RUN             prints `borrowed` if the host is borrowed for the run, else `free`
#   host.sh prolong RUN SECONDS  gives the run another expiry
#   host.sh give-back RUN        stops the server, removes the cluster and the packages; also a timer's command, so that
#                                the host is free again if pgdyno never returns
set -Eeuo pipefail

state=/var/lib/pgdyno-pool
log=$state/log unit=pgdyno-pool expiry=pgdyno-pool-expiry
command=$1 run=$2
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
step="starting" begun=1
# what pgdyno reads, also from a function whose output goes to the log
exec 3>&1

failed() {
  trap - ERR
  {
    printf 'failed: %s\n' "$step"
    tail -n "+$begun" "$log" | grep -v '^[[:space:]]*$' | tail -n 8 | tr -d '\r' | cut -c1-300
  } >&3
  exit 0
}

begin() {
  step=$1
  begun=$(($(wc -l < "$log") + 1))
}

# Only one of these scripts works on the host at a time; $1 are flock's options.
guard() {
  exec 9> "$state/guard"
  flock "$@" 9
}

borrower() { sed -n 1p "$state/borrowed" 2> /dev/null || true; }

# Ends the run after $1 seconds. A timer of systemd does not depend on pgdyno or on this connection.
arm() {
  disarm
  systemd-run --quiet --collect --unit="$expiry" --on-active="$1s" --timer-property=AccuracySec=1s \
    /bin/bash "$state/host.sh" give-back "$run"
}

disarm() { systemctl stop "$expiry.timer" 2> /dev/null || true; }

# apt-get ARGUMENTS: what this script has open is not for services that packages start.
apt() { apt-get -q -y -o DPkg::Lock::Timeout=600 "$@" < /dev/null 3>&- 9>&-; }

# Notes which packages are new before it installs them, so that a killed script leaves no unknown ones.
packages() {
  apt-get -s install --no-install-recommends "$@" < /dev/null |
    awk '$1 == "Inst" && $3 !~ /^\[/ { print $2 }' >> "$state/packages"
  apt install --no-install-recommends "$@"
}

lists() {
  local until=$((SECONDS + 600))
  # apt-get update does not wait for the lock itself
  until apt -o APT::Update::Error-Mode=any update; do
    [ "$SECONDS" -lt "$until" ] && tail -n 3 "$log" | grep -q "Could not get lock" || return 1
    sleep 2
  done
}

install_server() {
  [ ! -x "$bin/postgres" ] || return 0
  lists
  packages postgresql-common
  if [ ! -e /etc/postgresql-common/createcluster.d/pgdyno.conf ]; then
    # the package must not create a cluster of its own
    mkdir -p /etc/postgresql-common/createcluster.d
    echo /etc/postgresql-common/createcluster.d/pgdyno.conf >> "$state/files"
    echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.d/pgdyno.conf
  fi
  if [ "$PACKAGES" = pgdg ] && ! compgen -G '/etc/apt/sources.list.d/pgdg.*' > /dev/null; then
    printf '%s\n' /etc/apt/sources.list.d/pgdg.{sources,list} >> "$state/files"
    /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y < /dev/null 3>&- 9>&-
    lists
  fi
  packages "postgresql-$VERSION"
}

# Prints what the host lacks that no package of this script's would bring; nothing for Debian and Ubuntu.
lacks() {
  local each
  if ! command -v apt-get > /dev/null; then
    for each in dnf yum zypper pacman apk; do
      if command -v "$each" > /dev/null; then echo "it installs packages by $each, not by apt-get"; return; fi
    done
    echo "it has no apt-get"
  elif [ ! -d /run/systemd/system ]; then
    echo "systemd does not run on it"
  fi
}

borrow() {
  local client=$1 bin data unfit
  source /dev/stdin
  unfit=$(lacks)
  if [ -n "$unfit" ]; then
    echo "unfit: $unfit"
    return
  fi
  if ! guard -n; then
    echo "busy: it is being set up or cleaned up"
    return
  fi
  if [ -f "$state/borrowed" ]; then
    if [ "$(sed -n 2p "$state/borrowed")" -gt "$(date +%s)" ]; then
      echo "busy: run $(borrower) has it until $(date -u -d "@$(sed -n 2p "$state/borrowed")" +%FT%TZ)"
      return
    fi
    # the host was off when its timer would have ended that run
    trap failed ERR
    begin "the clean-up after run $(borrower)"
    clean_up >> "$log" 2>&1
  fi
  bin=/usr/lib/postgresql/$VERSION/bin data=$FOLDER/pgdyno-$run
  : > "$log"
  begun=1
  printf '%s\n' "$run" "$(($(date +%s) + LASTS_S))" "$data" > "$state/borrowed.new"
  mv "$state/borrowed.new" "$state/borrowed"
  trap failed ERR
  set_up >> "$log" 2>&1
  echo ready
  if [ "$TLS" = yes ]; then cat "$data/server.crt"; fi
}

set_up() {
  begin "the timer that ends the run"
  arm "$LASTS_S"
  begin "the port"
  if ss -Hltn "sport = :$PORT" | grep -q .; then
    echo "port $PORT is in use: choose another one (port = …)"
    return 1
  fi
  begin "packages of PostgreSQL"
  install_server

  begin "the cluster"
  if [ ! -d "$FOLDER" ]; then
    echo "$FOLDER" > "$state/folder"
    install -d "$FOLDER"
  fi
  install -d -o postgres -g postgres -m 0700 "$data"
  runuser -u postgres -- "$bin/initdb" -D "$data" --encoding=UTF8 --locale=C.UTF-8 --auth=peer "${INITDB[@]}"
  {
    echo "local all all peer"
    local kind=host each
    if [ "$TLS" = yes ]; then kind=hostssl; fi
    for each in "${ALLOW[@]:-$client}"; do
      case $each in */*) ;; *:*) each=$each/128 ;; *) each=$each/32 ;; esac
      echo "$kind all pgdyno $each scram-sha-256"
    done
  } > "$data/pg_hba.conf"
  printf '%s' "$SETTINGS" >> "$data/postgresql.conf"
  if [ "$TLS" = yes ]; then
    # the private key never leaves the host
    (umask 077 && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 \
      -subj "/CN=pgdyno-$run" -keyout "$data/server.key" -out "$data/server.crt")
    chown postgres: "$data/server.key" "$data/server.crt"
  fi

  begin "the server"
  systemctl reset-failed "$unit.service" 2> /dev/null || true
  systemd-run --quiet --collect --unit="$unit" --uid=postgres --gid=postgres --property=Type=notify \
    --property=TimeoutStartSec=300 --property=TimeoutStopSec=600 --property=KillMode=mixed --property=KillSignal=SIGINT \
    --property=LimitNOFILE=65536 --property="StandardError=append:$log" "$bin/postgres" -D "$data"
  runuser -u postgres -- psql -q -X -v ON_ERROR_STOP=1 -h "$data" -p "$PORT" -d postgres -f - <<< "$ROLE"
}

look() { if [ "$(borrower)" = "$run" ]; then echo borrowed; else echo free; fi; }

prolong() {
  guard -w 600
  [ "$(borrower)" = "$run" ] || { echo free; return; }
  trap failed ERR
  sed -i "2s/.*/$(($(date +%s) + $1))/" "$state/borrowed"
  arm "$1"
  echo borrowed
}

give_back() {
  guard -w 900
  [ "$(borrower)" = "$run" ] || { echo free; return; }
  trap failed ERR
  begin "the clean-up"
  clean_up
  echo free
}

clean_up() {
  local data
  data=$(sed -n 3p "$state/borrowed")
  systemctl stop "$unit.service" >> "$log" 2>&1 || ! systemctl -q is-active "$unit.service"
  case $data in */pgdyno-*) rm -rf -- "$data" ;; esac
  remove_packages
  if [ -f "$state/files" ]; then
    xargs -r -d '\n' rm -f -- < "$state/files"
  fi
  if [ -f "$state/folder" ]; then
    # another run's or somebody's files may be in it by now
    xargs -r -d '\n' rmdir --ignore-fail-on-non-empty -- < "$state/folder"
  fi
  rm -f "$state/packages" "$state/files" "$state/folder" "$state/borrowed"
  disarm
}

# Removes the packages that this run installed, unless one that somebody installed since needs them.
remove_packages() {
  [ -s "$state/packages" ] || return 0
  local noted others
  mapfile -t noted < <(sort -u "$state/packages" | while read -r each; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$each" 2> /dev/null)" != installed ] || echo "$each"
  done)
  [ "${#noted[@]}" -gt 0 ] || return 0
  others=$(apt-get -s remove "${noted[@]}" < /dev/null | awk '$1 == "Remv" { print $2 }' | grep -vxFf "$state/packages" || true)
  if [ -n "$others" ]; then
    echo "kept: packages that ${others//$'\n'/, } needs: ${noted[*]}"
    return
  fi
  apt remove "${noted[@]}" >> "$log" 2>&1
}

install -d -m 0755 "$state"
touch "$log"
chmod 0600 "$log"
case $command in
  borrow) borrow "$3" ;;
  look) look ;;
  prolong) prolong "$3" ;;
  give-back) give_back ;;
esac

#!/bin/bash
# Sets up a new host as a database server or a load generator, as /etc/pgdyno/host.env specifies. cloud-init runs it
# once, as root. It writes its state into the file `state` of the account for SSH: working, ready, or why it failed.
# After a failure it can run again: it keeps what earlier runs have completed.
set -Eeuo pipefail

# shellcheck source=/dev/null
source /etc/pgdyno/host.env
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
: "${LOCK_WITHIN_S:=600}" "${VOLUME_WITHIN_S:=120}"
step="starting" begun=1
home=$(getent passwd "$LOGIN" | cut -d: -f6)
log=/var/log/pgdyno-setup.log

say() {
  printf '%s\n' "$1" > "$home/state.new"
  chown "$LOGIN" "$home/state.new"
  mv -f "$home/state.new" "$home/state"
}

failed() {
  trap - ERR
  say "failed: $step
$(tail -n "+$begun" "$log" | grep -v '^[[:space:]]*$' | tail -n 8 | tr -d '\r' | cut -c1-300)"
  exit 1
}
trap failed ERR

# begin STEP: the step's lines of the log start here.
begin() {
  step=$1
  begun=$(($(wc -l < "$log") + 1))
  say "working: $step"
}

# Repeats a command of apt's while another process has the lock, for which apt-get update does not wait itself. Repeats
# it a few times after other errors, because the network may not be up yet.
patient() {
  local said tries=0 until=$((SECONDS + LOCK_WITHIN_S))
  while ! said=$("$@" 2>&1); do
    printf '%s\n' "$said"
    case $said in
      *"Could not get lock"*) [ "$SECONDS" -lt "$until" ] || return 1 ;;
      *) [ "$((tries += 1))" -lt 3 ] || return 1 ;;
    esac
    sleep 2
  done
  printf '%s\n' "$said"
}

# pgdyno reads the host's public key on the console, through Amazon, before its first login. The key stands there three
# times, because a message of the kernel may cut a line in two.
publish() {
  local key
  key=$(cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub)
  for _ in 1 2 3; do
    printf '\r\npgdyno host key %s %s\r\n' "$NONCE" "$key" >> /dev/console
  done
}

# The server's key never leaves the host; pgdyno fetches the certificate over SSH.
certificate() {
  if [ ! -f "$1/server.key" ]; then
    (umask 077 && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 \
      -subj /CN=pgdyno -keyout "$1/server.key.new" -out "$1/server.crt")
    chown postgres: "$1/server.key.new" "$1/server.crt"
    mv "$1/server.key.new" "$1/server.key"
  fi
  install -o "$LOGIN" -m 0644 "$1/server.crt" "$home/server.crt"
}

if command -v dnf > /dev/null; then
  bin=/usr/bin unit=postgresql
  # curl is there as curl-minimal, with which the package curl conflicts
  tools=(ca-certificates nvme-cli openssl xfsprogs)

  # dnf waits for its lock itself
  lists() { patient dnf -q -y makecache; }

  packages() { dnf -q -y --setopt=install_weak_deps=False install "$@"; }
else
  bin=/usr/lib/postgresql/${VERSION:-}/bin unit=postgresql@${VERSION:-}-main
  tools=(ca-certificates curl nvme-cli xfsprogs)

  lists() { patient apt-get -q -y -o APT::Update::Error-Mode=any update; }

  packages() { apt-get -q -y -o "DPkg::Lock::Timeout=$LOCK_WITHIN_S" install --no-install-recommends "$@"; }
fi

# Timers must not start work during a measurement.
still() {
  local each
  for each in $(systemctl list-unit-files --no-legend --state=enabled |
    awk '$1 ~ /\.timer$/ || $1 == "unattended-upgrades.service" { print $1 }'); do
    systemctl disable --now "$each"
  done
}

# Prints the block device that was requested as $1, such as /dev/sdf: an NVMe volume has that name in its identity data,
# and Xen names the device xvdf.
device() {
  local each name until=$((SECONDS + VOLUME_WITHIN_S))
  while true; do
    for each in /dev/nvme*n1; do
      [ -b "$each" ] || continue
      name=$(nvme id-ctrl --raw-binary "$each" | dd bs=1 skip=3072 count=32 status=none | tr -d ' \0') || continue
      if [ "/dev/${name#/dev/}" = "$1" ]; then
        echo "$each"
        return
      fi
    done
    if [ -b "/dev/xvd${1#/dev/sd}" ]; then
      echo "/dev/xvd${1#/dev/sd}"
      return
    fi
    if [ "$SECONDS" -ge "$until" ]; then
      echo "there is no volume $1 after $VOLUME_WITHIN_S s" >&2
      return 1
    fi
    sleep 1
  done
}

# volume PLACE DEVICE FILE_SYSTEM OPTIONS: formats and mounts a volume.
volume() {
  local place=$1 found
  if ! mountpoint -q "$place"; then
    found=$(device "$2")
    # The label identifies a file system that an earlier run of this script created.
    if [ "$(blkid -p -s LABEL -o value "$found" || true)" != pgdyno ]; then
      if blkid -p "$found"; then
        echo "the volume $2 ($found) is not empty" >&2
        return 1
      fi
      "mkfs.$3" -q -L pgdyno "$found"
    fi
    mkdir -p "$place"
    mount -t "$3" -o "$4" "$found" "$place"
    echo "UUID=$(blkid -s UUID -o value "$found") $place $3 $4 0 2" >> /etc/fstab
  fi
}

install_server() {
  if command -v dnf > /dev/null; then
    packages "postgresql$VERSION-server"
    return
  fi
  packages postgresql-common
  # The package must not create a cluster: set_up creates it in its place.
  mkdir -p /etc/postgresql-common/createcluster.d
  echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.d/pgdyno.conf
  if [ "$PACKAGES" = pgdg ]; then
    patient /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y
    # The script above only warns if it cannot download the package lists.
    lists
  fi
  packages "postgresql-$VERSION"
}

# Creates the cluster in $data, whose configuration is in $configuration, unless an earlier run of this script has.
cluster() {
  if [ -f "$configuration/postgresql.conf" ]; then return; fi
  if ! command -v dnf > /dev/null; then
    pg_createcluster "$VERSION" main --datadir="$data" --port="$PORT" --encoding=UTF8 --locale=C.UTF-8 -- \
      "${waldir[@]}" "${INITDB[@]}"
    return
  fi
  runuser -u postgres -- "$bin/initdb" -D "$data" --encoding=UTF8 --locale=C.UTF-8 "${waldir[@]}" "${INITDB[@]}"
  install -d -o postgres -g postgres -m 0700 "$data/conf.d"
  printf "port = %s\ninclude_dir = 'conf.d'\n" "$PORT" >> "$data/postgresql.conf"
  mkdir -p "/etc/systemd/system/$unit.service.d"
  printf '[Service]\nEnvironment=PGDATA=%s\n' "$data" > "/etc/systemd/system/$unit.service.d/pgdyno.conf"
  systemctl daemon-reload
}

huge_pages() {
  local pages got
  pages=$(runuser -u postgres -- "$bin/postgres" -D "$1" \
    -c "config_file=$2/postgresql.conf" -c huge_pages=off -C shared_memory_size_in_huge_pages)
  echo "vm.nr_hugepages = $pages" > /etc/sysctl.d/90-pgdyno.conf
  sysctl -q -p /etc/sysctl.d/90-pgdyno.conf
  got=$(cat /proc/sys/vm/nr_hugepages)
  if [ "$got" -lt "$pages" ]; then
    echo "the server needs $pages huge pages, and the host has memory for $got" >&2
    return 1
  fi
}

set_up() {
  begin "packages of the system"
  still
  lists
  packages "${tools[@]}"
  if [ "$ROLE" = generator ]; then
    still
    return
  fi

  begin "volumes"
  local data=/var/lib/postgresql/$VERSION/main waldir=() configuration=/etc/postgresql/$VERSION/main each
  if [ "$unit" = postgresql ]; then data=/var/lib/pgsql/data; fi
  if [ -n "$DATA_DEVICE" ]; then
    volume /srv/pgdyno/data "$DATA_DEVICE" "$DATA_FILE_SYSTEM" "$DATA_OPTIONS"
    data=/srv/pgdyno/data/postgres/main
  fi
  if [ -n "$WAL_DEVICE" ]; then
    volume /srv/pgdyno/wal "$WAL_DEVICE" "$WAL_FILE_SYSTEM" "$WAL_OPTIONS"
    waldir=(--waldir=/srv/pgdyno/wal/postgres/wal)
  fi

  begin "packages of PostgreSQL"
  install_server
  # The packages may have added timers.
  still

  begin "the cluster"
  # The packages have created the account postgres.
  for each in "$data" "${waldir[@]#--waldir=}"; do install -d -o postgres -g postgres -m 0700 "${each%/*}"; done
  if [ "$unit" = postgresql ]; then configuration=$data; fi
  cluster
  install -o postgres -g postgres -m 0600 /etc/pgdyno/hba.conf "$configuration/pg_hba.conf"
  install -o postgres -g postgres -m 0600 /etc/pgdyno/settings.conf "$configuration/conf.d/pgdyno.conf"
  if [ "$TLS" = yes ]; then certificate "$configuration"; fi

  # A running server already has its huge pages, and cannot report how many it needs.
  if [ "$HUGE_PAGES" = yes ] && ! systemctl -q is-active "$unit"; then
    begin "huge pages"
    huge_pages "$data" "$configuration"
  fi

  begin "the server"
  systemctl enable "$unit"
  systemctl start "$unit" || {
    if [ "$unit" = postgresql ]; then journalctl -q -n 8 -o cat -u "$unit"; else
      tail -n 8 "/var/log/postgresql/postgresql-$VERSION-main.log"
    fi
    return 1
  }
  runuser -u postgres -- psql -q -X -v ON_ERROR_STOP=1 -p "$PORT" -f - < /etc/pgdyno/role.sql
}

say "working: $step"
publish
set_up > "$log" 2>&1
say ready

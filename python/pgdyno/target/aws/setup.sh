#!/bin/bash
# Makes a database server, or a load generator, of a fresh host. cloud-init runs it once, as root; /etc/pgdyno/host.env
# says what is wanted. What became of it stands in the file `state` of the account for SSH: ready, or why not.
set -Eeuo pipefail

# shellcheck source=/dev/null
source /etc/pgdyno/host.env
export DEBIAN_FRONTEND=noninteractive
step="starting"
home=$(getent passwd "$LOGIN" | cut -d: -f6)
log=/var/log/pgdyno-setup.log

say() {
  printf '%s\n' "$1" > "$home/state.new"
  chown "$LOGIN" "$home/state.new"
  mv -f "$home/state.new" "$home/state"
}

failed() {
  trap - ERR
  say "failed: $step: $(tail -n 1 "$log" | tr -d '\r' | cut -c1-300)"
  exit 1
}
trap failed ERR

begin() {
  step=$1
  say "working: $step"
}

packages() { apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends "$@"; }

# the block device that was asked for as $1, such as /dev/sdf: NVMe has it in its identity, Xen calls it xvdf
device() {
  local each name tries
  for ((tries = 0; tries < 120; tries++)); do
    for each in /dev/nvme*n1; do
      [ -b "$each" ] || continue
      name=$(nvme id-ctrl --raw-binary "$each" | dd bs=1 skip=3072 count=32 status=none | tr -d ' \0')
      if [ "/dev/${name#/dev/}" = "$1" ]; then
        echo "$each"
        return
      fi
    done
    if [ -b "/dev/xvd${1#/dev/sd}" ]; then
      echo "/dev/xvd${1#/dev/sd}"
      return
    fi
    sleep 1
  done
  echo "there is no volume $1" >&2
  return 1
}

# volume PLACE DEVICE FILE_SYSTEM OPTIONS
volume() {
  local place=$1 found
  found=$(device "$2")
  "mkfs.$3" -q "$found"
  mkdir -p "$place"
  echo "UUID=$(blkid -s UUID -o value "$found") $place $3 $4 0 2" >> /etc/fstab
  mount "$place"
  install -d -o postgres -g postgres -m 0700 "$place/postgres"
}

set_up() {
  begin "packages of the system"
  # nothing is to wake up while something is measured
  systemctl disable --now apt-daily.timer apt-daily-upgrade.timer unattended-upgrades.service || true
  apt-get -q -y -o DPkg::Lock::Timeout=600 update
  packages ca-certificates curl nvme-cli xfsprogs
  if [ "$ROLE" = generator ]; then
    return
  fi

  begin "packages of PostgreSQL"
  packages postgresql-common
  # the cluster is made below, where it belongs
  echo "create_main_cluster = false" >> /etc/postgresql-common/createcluster.conf
  if [ "$PACKAGES" = pgdg ]; then
    /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y
  fi
  packages "postgresql-$VERSION"

  begin "volumes"
  local data=/var/lib/postgresql/$VERSION/main waldir=()
  if [ -n "$DATA_DEVICE" ]; then
    volume /srv/pgdyno/data "$DATA_DEVICE" "$DATA_FILE_SYSTEM" "$DATA_OPTIONS"
    data=/srv/pgdyno/data/postgres/main
  fi
  if [ -n "$WAL_DEVICE" ]; then
    volume /srv/pgdyno/wal "$WAL_DEVICE" "$WAL_FILE_SYSTEM" "$WAL_OPTIONS"
    waldir=(--waldir=/srv/pgdyno/wal/postgres/wal)
  fi

  begin "the cluster"
  local configuration=/etc/postgresql/$VERSION/main
  pg_createcluster "$VERSION" main --datadir="$data" --port="$PORT" --encoding=UTF8 --locale=C.UTF-8 -- \
    "${waldir[@]}" "${INITDB[@]}"
  install -o postgres -g postgres -m 0600 /etc/pgdyno/hba.conf "$configuration/pg_hba.conf"
  install -o postgres -g postgres -m 0600 /etc/pgdyno/settings.conf "$configuration/conf.d/pgdyno.conf"
  if [ -f /etc/pgdyno/server.key ]; then
    install -o postgres -g postgres -m 0600 /etc/pgdyno/server.crt /etc/pgdyno/server.key "$configuration/"
  fi

  if [ "$HUGE_PAGES" = yes ]; then
    begin "huge pages"
    local pages
    pages=$(runuser -u postgres -- "/usr/lib/postgresql/$VERSION/bin/postgres" -D "$data" \
      -c "config_file=$configuration/postgresql.conf" -c huge_pages=off -C shared_memory_size_in_huge_pages)
    echo "vm.nr_hugepages = $pages" > /etc/sysctl.d/90-pgdyno.conf
    sysctl -q -p /etc/sysctl.d/90-pgdyno.conf
  fi

  begin "the server"
  systemctl enable "postgresql@$VERSION-main"
  systemctl restart "postgresql@$VERSION-main"
  runuser -u postgres -- psql -q -X -v ON_ERROR_STOP=1 -p "$PORT" -f - < /etc/pgdyno/role.sql
}

say "working: $step"
set_up > "$log" 2>&1
say ready

#!/bin/bash
# Shuts this host down once it has expired; EC2 then terminates the instance. The expiry is in its tag pgdyno:expires,
# which pgdyno can change. /etc/pgdyno/expires has the original expiry, for when the tag is unavailable.
set -u
metadata=http://169.254.169.254/latest
expires=$(cat /etc/pgdyno/expires)

tagged() {
  local token
  token=$(curl -sf -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$metadata/api/token") &&
    curl -sf -m 5 -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/tags/instance/pgdyno:expires"
}

while true; do
  if now=$(tagged) && date -d "$now" > /dev/null 2>&1; then expires=$now; fi
  left=$(($(date -d "$expires" +%s) - $(date +%s)))
  if [ "$left" -le 0 ]; then
    systemctl poweroff
    exit
  fi
  sleep $((left < 900 ? left : 900))
done

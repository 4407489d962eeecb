#!/bin/bash
# Ends this host for good once it has expired: it is made so that a shutdown removes it. The moment stands in its tag
# pgdyno:expires, which can be put off, and as it was at first in /etc/pgdyno/expires.
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

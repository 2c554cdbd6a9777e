#!/usr/bin/env bash
# Once, when the database is new: the ledger's owner, its database, and a door for people that wants TLS.
set -euo pipefail
psql --set ON_ERROR_STOP=1 --set password="$OWNER_PASSWORD" --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'END'
CREATE ROLE reflector LOGIN PASSWORD :'password';
CREATE DATABASE reflector OWNER reflector ENCODING 'UTF8' TEMPLATE template0;
REVOKE TEMPORARY ON DATABASE reflector FROM PUBLIC;
END
cat >"$PGDATA/pg_hba.conf" <<'END'
local all all peer
hostssl reflector all all scram-sha-256
END

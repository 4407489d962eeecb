"""Passwords are removed from a line, and what surrounds them stays; that none is stored is in tests/cli."""

import re

from pgdyno.importers.documents.passwords import connection_options, server_parts, without_passwords
from pgdyno.importers.documents.read_document import read_document

CASES = r"""
sysbench oltp_read_only --pgsql-password=sEcret --threads=8 run
sysbench oltp_read_only --pgsql-password='sEcret sEcret' --threads=8 run
sysbench oltp_read_only "--pgsql-password=sEcret sEcret" --threads=8 run
sysbench oltp_read_only "--pgsql-password=a\"sEcret sEcret" run
sysbench --pgsql-password 'sEcret' --threads=8 run
sysbench --pgsql-password=sE'cret sEcret'sEcret --mysql-password='it'"'"'sEcret' run
'--pgsql-password=it'"'"'sEcret' run
PGPASSWORD=sEcret pgbench -c 8 bench
export PGPASSWORD='sEcret sEcret'
set -x PGPASSWORD sEcret
setenv PGPASSWORD sEcret
$env:PGPASSWORD = "sEcret sEcret"
docker exec -e "PGPASSWORD=sEcret" pg pgbench -c 8 -f "x.sql" bench
sshpass -p sEcret ssh root@h pgbench -c 8
pgbench -c 8 -d "host=h password=sEcret dbname=b" -f "x y.sql"
pgbench -c 8 -d "host=h dbname=b password=sEcret" -f "x y.sql"
pgbench -c 8 -d "host=h password='sEcret sEcret' dbname=b"
pgbench -c 8 "host=h password = 'it\'sEcret sEcret' dbname=b"
pgbench -c 8 "host=h password=it\\'sEcret dbname=b"
pgbench -c 8 "host=h password='sEcret sEcret
--pgsql-password='sEcret sEcret\
pgbench -c 8 postgresql://u:sEcret@h1:5432/db
pgbench -c 8 'postgresql://u:sE%40cret@sEcret@h1/db?sslmode=require'
pgbench -c 8 postgresql://u:a/sEcret@h1/db
pgbench -c 8 postgresql://u@h1/db?password=sEcret&sslmode=require
bash -c "pgbench -d \"host=h password=sEcret\" -c 8"
bash -c "pgbench -d \"host=h password='sEcret sEcret' dbname=b\""
SELECT dblink('host=h password=sEcret')
ALTER ROLE b PASSWORD 'it''sEcret'
CREATE USER b PASSWORD E'it\'sEcret'
diset tpcc pg_superuserpass sEcret
diset tpcc pg_pass {sEcret sEcret}
diset connection pg_pass "sEcret sEcret" ;# x
set password "sEcret sEcret" ;# Postgres password
Changed tpcc:pg_superuserpass from sEcret sEcret to sEcret for PostgreSQL
Value sEcret for tpcc:pg_pass is the same as existing value sEcret, no change made
 pg_superuserpass = sEcret
tpcc {pg_count_ware 40 pg_pass sEcret pg_num_vu 4 pg_superuserpass {a {sEcret} b}}
<password>sEcret sEcret</password>
<url>jdbc:postgresql://h/db?user=u&amp;password=sEcret&amp;ssl=true</url>
"url": "jdbc:postgresql://h/db?user=u&password=sEcret&ssl=true"
{"password": "sE\"cret sEcret", "tps": 5}
:password => 'sEcret',
password: sEcret
ALTER USER u WITH ENCRYPTED PASSWORD $$sE cret$$; -- 100 tps
ALTER ROLE u PASSWORD $q$sE$$cret$q$ LOGIN
psql -c "ALTER USER u PASSWORD \\$\\$sE cret\\$\\$"
CREATE ROLE u PASSWORD $$sE cret
CREATE ROLE u PASSWORD U&'sE cret'
OPTIONS (user 'u', password = $$sE cret$$)
""".strip("\n").splitlines()


def test_passwords_are_removed_from_a_line() -> None:
    for line in CASES:
        shown = without_passwords(line)
        assert not re.search(r"sE|cret", shown)
        assert "***" in shown
        assert without_passwords(shown) == shown
    (unread,) = read_document("PGPASSWORD=sEcret " + "x" * 70_000).unread
    assert "beginning" in unread.parameters
    assert "sEcret" not in unread.text


def test_what_surrounds_a_password_is_kept() -> None:
    for line, shown in (
        ('pgbench -d "host=h oauth_client_secret=xyz"', 'pgbench -d "host=h oauth_client_secret=***"'),
        ("sysbench --pgsql-password=x --threads=8 run", "sysbench --pgsql-password=*** --threads=8 run"),
        ('pgbench -d "host=h password=x" -f "y"', 'pgbench -d "host=h password=***" -f "y"'),
        ("pgbench -d \"host=h password='x y' port=1\"", "pgbench -d \"host=h password='***' port=1\""),
        ("pgbench postgresql://u:x@h1:5432/db", "pgbench postgresql://u:***@h1:5432/db"),
        ("pgbench postgresql://h/db?password=x&port=1", "pgbench postgresql://h/db?password=***&port=1"),
        ("ALTER ROLE u PASSWORD $$x y$$ LOGIN", "ALTER ROLE u PASSWORD *** LOGIN"),
        ('{"password": "x", "tps": 5}', '{"password": "***", "tps": 5}'),
        ("{pg_pass x pg_count_ware 40}", "{pg_pass *** pg_count_ware 40}"),
        ("{pg_count_ware 40 pg_pass x}", "{pg_count_ware 40 pg_pass ***}"),
    ):
        assert without_passwords(line) == shown
    for line in (
        "Password:",
        "Password for user postgres:",
        "sysbench --pgsql-password= run",
        "sysbench --pgsql-password run",
        "PGPASSWORD= pgbench -c 8",
        "psql --password -h x",
        "password_encryption = scram-sha-256, 100 tps",
        "PGPASSFILE=/home/x/.pgpass",
        "| user | password | tps |",
        "pass 1: 3400 tps",
        "bypass = on",
        "postgresql://h1:5432,h2:5433/db?user=a@b",
        '{"password": null, "tps": 5}',
        "ALTER ROLE u PASSWORD $1",
    ):
        assert without_passwords(line) == line


def test_the_time_grows_with_the_length_of_a_line() -> None:
    parts = [
        "password $$", "password $a", "://a:", "://:", "password=", "'password='", '"--password=', "--password ",
        "password=\\", "passwd\\'", "_pass ", "x_pass {", "&password=", "<password>", "Value x for ", "Changed ",
        "set password ", "password=a'b", "password='",
    ]  # fmt: skip
    for part in parts:
        # a time by the square of the length would be most of an hour
        assert without_passwords("password=" + part * (160_000 // len(part))).startswith("password=")


def test_of_a_connection_string_the_server_and_options_of_the_load_are_kept() -> None:
    for text, parts in (
        ("bench", {"d": "bench"}),
        ("postgresql://u:x@h1:5432/db?sslmode=require", {"h": "h1:5432", "d": "db"}),
        ("postgres://u@h1,h2/db", {"h": "h1,h2", "d": "db"}),
        ("postgresql:///db?host=/tmp&port=5433&password=x", {"h": "/tmp", "p": "5433", "d": "db"}),
        ("postgresql://h1", {"h": "h1"}),
        ("host=h1 port = 5433 user=u password='x y' dbname='my db'", {"h": "h1", "p": "5433", "d": "my db"}),
        ("hostaddr=10.0.0.1 host=h1 sslmode=disable", {"h": "h1"}),
        ("service=fast password=x", {"h": "fast"}),
        ("user=u password=x", {}),
    ):
        assert server_parts(text) == parts
    for text, options in (
        ("bench", []),
        ("postgresql://u:x@h1/db?password=x&sslmode=require&options=-c%20a%3Db", ["options=-c a=b", "sslmode=require"]),
        ("host=h user=u password='x y' options='-c a=b' application_name=t", ["options=-c a=b"]),
    ):
        assert connection_options(text) == options

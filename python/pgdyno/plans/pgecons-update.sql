-- Gives one account another filler
\set aid_val random(1, 100000 * :scale)
UPDATE pgbench_accounts SET filler = repeat(md5(current_timestamp::text), 2) WHERE aid = :aid_val;

\set customer random_zipfian(1, 100000, 1.2)
\set lines random(1, 4)
BEGIN;
SELECT abalance FROM pgbench_accounts WHERE aid = :customer;
\set item random(1, 100000)
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :item;
\if :lines >= 2
\set item random(1, 100000)
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :item;
\endif
\if :lines >= 3
\set item random(1, 100000)
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :item;
\endif
\if :lines >= 4
\set item random(1, 100000)
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :item;
\endif
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :customer, :lines, now());
COMMIT;

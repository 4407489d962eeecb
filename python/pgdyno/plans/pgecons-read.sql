-- Counts the balances of 10,001 accounts that lie side by side
\set row_count 10000
\set aid_max 100000 * :scale - :row_count
\set aid random(1, :aid_max)
SELECT count(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + :row_count;

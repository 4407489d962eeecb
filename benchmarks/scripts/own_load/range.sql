\set first random_gaussian(1, 99900, 3)
\set last :first + 99
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :first AND :last;

\set account 1 + permute(random_zipfian(1, 100000, 1.1) - 1, 100000, 7)
SELECT aid, abalance, filler FROM pgbench_accounts WHERE aid = :account;

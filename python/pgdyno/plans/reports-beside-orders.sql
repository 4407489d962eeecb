-- balances by branch: reads every account
SELECT bid, count(*), sum(abalance), max(abalance) FROM pgbench_accounts GROUP BY bid ORDER BY bid;

-- Inserts :rows_per_commit random rows, then deletes as many of the oldest ones
INSERT INTO pi1 (dateandtime, cashregisterid, customerid, productid, price, data)
SELECT date_trunc('second', localtimestamp), floor(random() * 1000), floor(random() * 100000),
    floor(random() * 10000), floor(random() * 500),
    repeat('a', length - length * 3 / 8) || left(md5(random()::text), length * 3 / 8)
FROM (SELECT 10 + floor(random() * 11)::int AS length FROM generate_series(1, :rows_per_commit)) AS each_row;
-- only sometimes: looking for the oldest row also passes entries of deleted ones
\if :until_min = 0
SELECT coalesce(min(transactionid), 0) AS oldest FROM pi1 \gset
\set until_min 1000
\endif
\set until_min :until_min - 1
DELETE FROM pi1 WHERE transactionid IN (
    SELECT transactionid FROM pi1 WHERE transactionid >= :oldest ORDER BY transactionid LIMIT :rows_per_commit);
\set oldest :oldest + :rows_per_commit

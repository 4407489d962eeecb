-- Inserts :rows_per_commit random rows; `data` has 10 to 20 characters, of which three eighths are random.
INSERT INTO pi1 (dateandtime, cashregisterid, customerid, productid, price, data)
SELECT date_trunc('second', localtimestamp), floor(random() * 1000), floor(random() * 100000),
    floor(random() * 10000), floor(random() * 500),
    repeat('a', length - length * 3 / 8) || left(md5(random()::text), length * 3 / 8)
FROM (SELECT 10 + floor(random() * 11)::int AS length FROM generate_series(1, :rows_per_commit)) AS each_row;

\set register random(0, 999)
SELECT cashregisterid, customerid, price FROM pi1
WHERE cashregisterid > :register ORDER BY cashregisterid, customerid, price LIMIT 10;

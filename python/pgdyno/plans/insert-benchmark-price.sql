\set price random(0, 499)
SELECT price, dateandtime, customerid FROM pi1
WHERE price >= :price ORDER BY price, dateandtime, customerid LIMIT 10;

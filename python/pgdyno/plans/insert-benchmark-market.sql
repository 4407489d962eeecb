\set product random(0, 9999)
SELECT productid, customerid, price FROM pi1
WHERE productid >= :product ORDER BY productid, customerid, price LIMIT 10;

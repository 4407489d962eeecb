-- Looks up 10 rows by their key
\if :until_range = 0
SELECT min(transactionid) AS oldest, max(transactionid) AS newest FROM pi1 \gset
\set until_range 100
\endif
\set until_range :until_range - 1
\set id0 random(:oldest, :newest)
\set id1 random(:oldest, :newest)
\set id2 random(:oldest, :newest)
\set id3 random(:oldest, :newest)
\set id4 random(:oldest, :newest)
\set id5 random(:oldest, :newest)
\set id6 random(:oldest, :newest)
\set id7 random(:oldest, :newest)
\set id8 random(:oldest, :newest)
\set id9 random(:oldest, :newest)
SELECT transactionid, productid, data FROM pi1
WHERE transactionid IN (:id0, :id1, :id2, :id3, :id4, :id5, :id6, :id7, :id8, :id9);

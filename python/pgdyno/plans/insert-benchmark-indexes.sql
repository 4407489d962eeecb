-- One more commit of 100 rows, as in iibench.py, then the secondary indexes
\set rows_per_commit 100
\ir insert-benchmark-load.sql
CREATE INDEX pi1_marketsegment ON pi1 (productid, customerid, price);
CREATE INDEX pi1_registersegment ON pi1 (cashregisterid, customerid, price);
CREATE INDEX pi1_pdc ON pi1 (price, dateandtime, customerid);

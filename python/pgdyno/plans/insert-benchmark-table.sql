-- The table of the insert benchmark, a queue: rows come in at one end and leave at the other.
CREATE TABLE pi1 (
    transactionid bigserial PRIMARY KEY,
    dateandtime timestamp without time zone,
    cashregisterid int NOT NULL,
    customerid int NOT NULL,
    productid int NOT NULL,
    price int NOT NULL,
    data varchar(4000)
);
ALTER SEQUENCE pi1_transactionid_seq CACHE 1000;

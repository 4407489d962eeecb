"""A small shop: an application whose sessions name keys that the server made, also for each other."""

import random
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
from psycopg import errors

from tests.present import present

SCHEMA = """
CREATE TABLE products (id int PRIMARY KEY, stock int NOT NULL);
CREATE TABLE carts (id serial PRIMARY KEY, customer_id int NOT NULL, is_open bool NOT NULL DEFAULT true);
CREATE TABLE cart_items (cart_id int REFERENCES carts, product_id int REFERENCES products, quantity int,
                         PRIMARY KEY (cart_id, product_id));
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, cart_id int UNIQUE REFERENCES carts,
                     customer_id int NOT NULL, token uuid NOT NULL DEFAULT gen_random_uuid());
CREATE TABLE order_lines (order_id bigint REFERENCES orders, product_id int, quantity int);
CREATE SEQUENCE payment_numbers;
CREATE TABLE payments (id bigint PRIMARY KEY, token uuid NOT NULL, customer_id int NOT NULL);
CREATE TABLE audit (order_id bigint REFERENCES orders, customer_id int NOT NULL, event text NOT NULL);
INSERT INTO products SELECT i, 1000000 FROM generate_series(1, 50) AS i;
"""
ELSEWHERE = """
SELECT setval('carts_id_seq', 1000), setval('payment_numbers', 77);
ALTER TABLE orders ALTER COLUMN id RESTART WITH 5000;
"""
"""Sequences of a copy that are elsewhere."""
CONTENT = {
    "products": "SELECT id, stock FROM products",
    "carts": "SELECT customer_id, is_open, count(*) FROM carts GROUP BY 1, 2",
    "cart_items": "SELECT customer_id, product_id, sum(quantity) FROM cart_items i JOIN carts c ON c.id = cart_id"
    " GROUP BY 1, 2",
    "orders": "SELECT o.customer_id, c.customer_id, count(*) FROM orders o JOIN carts c ON c.id = cart_id"
    " GROUP BY 1, 2",
    "order_lines": "SELECT customer_id, product_id, sum(quantity) FROM order_lines JOIN orders o ON o.id = order_id"
    " GROUP BY 1, 2",
    "payments": "SELECT p.customer_id, o.customer_id, count(*) FROM payments p LEFT JOIN orders o USING (token)"
    " GROUP BY 1, 2",
    "audit": "SELECT a.customer_id, o.customer_id, event, count(*) FROM audit a JOIN orders o ON o.id = order_id"
    " GROUP BY 1, 2, 3",
}
"""What the tables say, without the keys that the server made."""


class Shop:
    """Customers who share the orders that are to be paid and audited."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.unpaid: deque[tuple[str, int]] = deque()
        self.unaudited: deque[tuple[int, int]] = deque()

    def run(self, sessions: int, transactions: int) -> None:
        with ThreadPoolExecutor(sessions) as pool:
            list(pool.map(lambda number: self.serve(number, transactions), range(sessions)))

    def serve(self, number: int, transactions: int) -> None:
        """Send the transactions of one session; every third session puts constants into its texts."""
        draw = random.Random(number)
        factory = psycopg.ClientCursor if number % 3 == 0 else psycopg.Cursor
        with psycopg.connect(self.dsn, autocommit=True, cursor_factory=factory) as connection:
            carts: list[tuple[int, list[int]]] = []
            for _ in range(transactions):
                kind = draw.choice(["cart", "cart", "order", "order", "pay", "audit", "look", "again"])
                customer = number * 100 + draw.randrange(5)
                placed = None
                with connection.transaction():
                    if kind == "cart" or not carts:
                        carts.append(self.fill_cart(connection, draw, customer))
                    elif kind == "order":
                        placed = self.place_order(connection, *carts.pop(draw.randrange(len(carts))))
                    elif kind == "look":
                        self.look(connection, customer)
                    elif kind == "pay" and self.unpaid:
                        self.pay(connection, *self.unpaid.popleft())
                    elif kind == "audit" and self.unaudited:
                        self.audit(connection, [self.unaudited.popleft() for _ in range(len(self.unaudited) // 2 + 1)])
                if placed is not None:
                    order, token, customer = placed
                    self.unpaid.append((token, customer))
                    self.unaudited.append((order, customer))
                if kind == "again" and carts:
                    self.fail(connection, *carts[-1])

    def fill_cart(self, to: psycopg.Connection, draw: random.Random, customer: int) -> tuple[int, list[int]]:
        row = present(to.execute("INSERT INTO carts (customer_id) VALUES (%s) RETURNING id", (customer,)).fetchone())
        products = draw.sample(range(1, 51), draw.randint(1, 4))
        for product in sorted(products):
            to.execute("INSERT INTO cart_items VALUES (%s, %s, %s)", (row[0], product, draw.randint(1, 9)))
        return row[0], [customer, *sorted(products)]

    def place_order(self, to: psycopg.Connection, cart: int, of: list[int]) -> tuple[int, str, int]:
        customer = of[0]
        items = "SELECT product_id, quantity FROM cart_items WHERE cart_id = %s ORDER BY 1"
        found = to.execute(items, (cart,)).fetchall()
        insert = "INSERT INTO orders (cart_id, customer_id) VALUES (%s, %s) RETURNING id, token"
        row = present(to.execute(insert, (cart, customer)).fetchone())
        insert = "INSERT INTO order_lines (order_id, product_id, quantity) VALUES (%s, %s, %s)"
        for product, quantity in found:
            to.execute(insert, (row[0], product, quantity))
            to.execute("UPDATE products SET stock = stock - %s WHERE id = %s", (quantity, product))
        to.execute("UPDATE carts SET is_open = false WHERE id = %s", (cart,))
        return row[0], row[1], customer

    def pay(self, to: psycopg.Connection, token: str, customer: int) -> None:
        row = present(to.execute("SELECT nextval('payment_numbers')").fetchone())
        to.execute("INSERT INTO payments (id, token, customer_id) VALUES (%s, %s, %s)", (row[0], token, customer))
        to.execute("SELECT id FROM payments WHERE id = %s", (row[0],))

    def audit(self, to: psycopg.Connection, orders: list[tuple[int, int]]) -> None:
        with to.cursor().copy("COPY audit (order_id, customer_id, event) FROM STDIN") as copy:
            for order, customer in orders:
                copy.write_row((order, customer, "placed"))

    def look(self, to: psycopg.Connection, customer: int) -> None:
        last = "SELECT id FROM orders WHERE customer_id = %s ORDER BY id DESC LIMIT 3"
        found = to.execute(last, (customer,)).fetchall()
        to.execute("SELECT * FROM order_lines WHERE order_id = ANY(%s)", ([row[0] for row in found],))

    def fail(self, to: psycopg.Connection, cart: int, of: list[int]) -> None:
        """Put a product into a cart that is in it already."""
        with suppress(errors.UniqueViolation), to.transaction():
            to.execute("INSERT INTO cart_items VALUES (%s, %s, 1)", (cart, of[1]))

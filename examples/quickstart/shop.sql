-- The shop that pipelines.yaml reads. shop.db beside this file was made from it: sqlite3 shop.db < shop.sql
CREATE TABLE customers (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, email TEXT, updated_at TEXT NOT NULL);
CREATE INDEX customers_updated ON customers (updated_at, id);
CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, customer_id INTEGER NOT NULL REFERENCES customers, item TEXT NOT NULL,
  cents INTEGER NOT NULL, status TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE INDEX orders_updated ON orders (updated_at, id);
INSERT INTO customers (name, email, updated_at) VALUES
  ('Ada Andersson', 'ada@example.com', '2026-01-30 08:00:00.000'), ('Bjørn Baker', NULL, '2026-01-30 08:00:01.500'),
  ('Chiyo Hashimoto', 'chiyo@example.com', '2026-01-30 08:05:00.250'), ('Đặng Hồng', '', '2026-02-01 23:59:59.999');
INSERT INTO orders (customer_id, item, cents, status, updated_at) VALUES
  (1, 'lamp', 4950, 'delivered', '2026-01-30 09:00:00.000'), (1, 'desk', 32900, 'shipped', '2026-01-31 10:30:00.000'),
  (2, 'kettle', 2999, 'paid', '2026-02-01 07:45:12.125'), (3, 'rug "Kiruna"', 12900, 'new', '2026-02-01 07:45:12.125'),
  (4, 'clock', 1, 'new', '2026-02-02 00:00:00.000');

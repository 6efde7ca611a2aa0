-- SQLite's storage classes under every declared type that is known, and values that their columns do not promise.
CREATE TABLE whole (id INTEGER PRIMARY KEY, i INTEGER, b BIGINT, s SMALLINT, bo BOOLEAN, at INTEGER NOT NULL DEFAULT 1);
INSERT INTO whole VALUES (1, 9223372036854775807, -9223372036854775808, 32767, 1, 1), (2, 0, 9007199254740993, -1, 0, 2), (3, 'text', 1.5, x'00ff', 2, 3), (4, NULL, NULL, NULL, NULL, 4);
CREATE TABLE real_number (id INTEGER PRIMARY KEY, r REAL, d DOUBLE, f FLOAT, n NUMERIC, dec DECIMAL(10,2), at INTEGER NOT NULL DEFAULT 1);
INSERT INTO real_number VALUES (1, 0.1, 1e300, -0.0, 1.10, 12345678.90, 1), (2, 1e999, -1e999, 5e-324, 9007199254740993, 99999999999999999999, 2), (3, 1, 2, 'NaN', 'x', '1.50', 3), (4, NULL, NULL, NULL, NULL, NULL, 4);
CREATE TABLE text_value (id INTEGER PRIMARY KEY, t TEXT, v VARCHAR(5), c CLOB, j JSON, u, at INTEGER NOT NULL DEFAULT 1);
INSERT INTO text_value VALUES (1, 'čaj 😀 "q" \ ' || char(9), 'longer than five', '', '{"a":1,  "a":2}', 'untyped', 1), (2, 5, 1.5, x'61', '{', 7, 2), (3, 'a' || char(0) || 'b', NULL, NULL, NULL, x'00', 3), (4, NULL, NULL, NULL, NULL, NULL, 4);
CREATE TABLE bytes_value (id INTEGER PRIMARY KEY, b BLOB, vb VARBINARY(4), at INTEGER NOT NULL DEFAULT 1);
INSERT INTO bytes_value VALUES (1, x'00ff3e3fdeadbeef', x'', 1), (2, 'text', 5, 2), (3, NULL, NULL, 3);
CREATE TABLE moment (id INTEGER PRIMARY KEY, d DATE, t TIME, dt DATETIME, ts TIMESTAMP, at INTEGER NOT NULL DEFAULT 1);
INSERT INTO moment VALUES (1, '2026-01-30', '12:34:56.5', '2026-01-30 12:34:56', '2026-01-30T12:34:56.123', 1), (2, '0000-00-00', '25:00:00', '2026-13-01 00:00:00', 1769776496, 2), (3, NULL, NULL, NULL, NULL, 3);
CREATE TABLE pair (a TEXT, b INTEGER, "odd ""name" TEXT, at INTEGER NOT NULL DEFAULT 1, PRIMARY KEY (b, a));
INSERT INTO pair VALUES ('x', 1, 'y', 1);

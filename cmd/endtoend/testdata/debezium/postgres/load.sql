-- Tables of every type that Debezium carries, with the edge cases that it can represent. The changes are in changes.sql.
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE SCHEMA shop;
SET search_path = shop, public;
CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy');
CREATE DOMAIN price AS numeric(12,2);
CREATE TYPE pair AS (n int, t text);

CREATE TABLE numbers (id int PRIMARY KEY, i2 smallint, i4 int NOT NULL, i8 bigint, f4 real, f8 double precision,
  n numeric, n10_2 numeric(10,2), n5 numeric(5), n38_18 numeric(38,18), m money, o oid, b boolean, p price);
INSERT INTO numbers VALUES
  (1, 32767, 2147483647, 9223372036854775807, 1.5, 0.1, 123.4500, 12345678.90, 99999, 12345678901234567890.123456789012345678, 1234.56, 4294967295, true, 9.99),
  (2, -32768, -2147483648, -9223372036854775808, 3.4028235e38, 1.7976931348623157e308, -0.001, -0.01, -1, -0.000000000000000001, -0.01, 0, false, 0),
  (3, 0, 0, 9007199254740993, 1e-30, 2.2250738585072014e-308, 12345678901234567890123456789012345678901234567890, 0, 0, 0, 0, 1, NULL, 1.10),
  (4, NULL, 7, NULL, 16777216, 1e21, 100, 0.00, 10, 1, NULL, NULL, NULL, NULL),
  (5, 1, 1, 1, 1000000, 1e-7, 0.10, 128.00, 128, -128, 100, 1, true, -1.28),
  (6, 1, 1, 1, 12345678, 12345678.9, 1e10, -128.00, -129, 255, -100, 1, true, 2.55),
  (7, 1, 1, 1, 0.001, 0.0001, 0, 327.68, -32768, 0.5, 1, 1, true, 1),
  (8, 1, 1, 1, 'NaN', 'Infinity', 0, 327.68, -32768, 0.5, 1, 1, true, 1),
  (9, 1, 1, 1, '-Infinity', 'NaN', 0, 327.68, -32768, 0.5, 1, 1, true, 1);

CREATE TABLE texts (id int PRIMARY KEY, c char(5), vc varchar(20), t text NOT NULL, ci citext, e mood, u uuid, j json, jb jsonb, x xml, lt ltree, tv tsvector, ch "char");
INSERT INTO texts VALUES
  (1, 'ab', 'čaj', E'line\nbreak\t"quote" \\ / \u0001 \u001f \u007f \u2028 😀 <&>', 'CaSe', 'it''s ok', '0123ABCD-4567-89ab-cdef-0123456789ab', '{"b":1,  "a":2,"a":3}', '{"n": 1234567890123456789, "d": 0.10}', '<a b="1">x</a>', 'a.b.c', 'fat:1A cat:2', 'z'),
  (2, '', '', '', '', 'sad', '00000000-0000-0000-0000-000000000000', '[]', 'null', '', '', '', '1'),
  (3, NULL, NULL, 'x', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE bins (id int PRIMARY KEY, b bytea, b1 bit(1), b8 bit(8), b65 bit(65), vb bit varying, vb5 bit varying(5));
INSERT INTO bins VALUES
  (1, '\x00ff3e3fdeadbeef', '1', '10000001', ('1' || repeat('0', 63) || '1')::bit(65), '101', '10101'),
  (2, '', '0', '00000000', repeat('0', 65)::bit(65), '1', '1'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, '\xfbff', '1', '11111111', repeat('1', 65)::bit(65), repeat('01', 20)::varbit, '0');

CREATE TABLE times (id int PRIMARY KEY, d date, t time, t0 time(0), t3 time(3), tz timetz, ts timestamp, ts0 timestamp(0), ts3 timestamp(3), ts6 timestamp(6), tstz timestamptz, tstz3 timestamptz(3), iv interval);
INSERT INTO times VALUES
  (1, '2026-01-30', '12:34:56.123456', '12:34:56', '12:34:56.123', '12:34:56.123456+02', '2026-01-30 12:34:56.123456', '2026-01-30 12:34:56', '2026-01-30 12:34:56.123', '2026-01-30 12:34:56.1', '2026-01-30 12:34:56.123456+02', '2026-01-30 12:34:56.5+00', '1 year 2 mons 3 days 04:05:06.789'),
  (2, '1969-12-31', '00:00', '00:00', '23:59:59.999', '00:00:00-05:30', '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59', '1969-12-31 23:59:59.999', '1900-01-01', '1969-12-31 23:59:59.999999+00', '1900-01-01 00:00:00+00', '-1 mons +2 days -00:00:00.5'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, '9999-12-31', '23:59:59.999999', '23:59:59', '00:00:00.001', '23:59:59+00', '2200-01-01', '2200-01-01', '2200-01-01', '2200-01-01', '2200-01-01 00:00:00.000001+00', '2026-07-01 00:00:00+02', '00:00:00'),
  (5, '0001-01-01', '01:00', '01:00', '01:00', '01:00+01', '1970-01-01', '1970-01-01', '1970-01-01', '1970-01-01', '2026-01-30 12:00+00', '2026-01-30 12:34:00.120+00', '-100 years'),
  (6, NULL, '24:00', '24:00', '24:00', '24:00:00+00', 'infinity', '-infinity', NULL, '0044-03-15 BC', 'infinity', '-infinity', '1 mon'),
  (7, NULL, NULL, NULL, NULL, NULL, '-infinity', NULL, NULL, NULL, '0044-03-15 12:00+00 BC', NULL, '-1 year -2 mons +3 days -04:05:06.000001'),
  (8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '12026-01-01', '12026-01-01+00', NULL, NULL);

CREATE TABLE nets (id int PRIMARY KEY, i inet, c cidr, m macaddr, m8 macaddr8);
INSERT INTO nets VALUES (1, '10.0.0.1', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05'), (2, '10.0.0.1/24', '2001:db8::/32', NULL, NULL), (3, '::1', NULL, NULL, NULL);

CREATE TABLE ranges (id int PRIMARY KEY, r4 int4range, r8 int8range, rn numrange, rts tsrange, rtz tstzrange, rd daterange);
INSERT INTO ranges VALUES (1, '[1,10)', '[1,)', '[1.5,2.50]', '[2026-01-01 00:00,2026-01-02 00:00)', '[2026-01-01 00:00+00,2026-01-02 00:00+00)', '[2026-01-01,2026-02-01)'), (2, 'empty', NULL, '(,)', NULL, NULL, '(,2026-01-01)');

CREATE TABLE arrays (id int PRIMARY KEY, ai int[], a2 smallint[], a8 bigint[], at text[], avc varchar(5)[], an numeric(10,2)[], af double precision[], ar real[], ab boolean[], ad date[], au uuid[], ae mood[], atz timestamptz[], ats timestamp[], aj jsonb[], atm time[], ac char(3)[], aip inet[]);
INSERT INTO arrays VALUES
  (1, '{1,NULL,-3}', '{1}', '{9223372036854775807}', ARRAY['a', NULL, 'NULL', '', 'q"u\o,{}'], '{ab,c}', '{1.10,-0.01}', '{0.1,1e21}', '{1.5}', '{t,f,NULL}', '{2026-01-30}', '{0123abcd-4567-89ab-cdef-0123456789ab}', '{sad,"it''s ok"}', '{"2026-01-30 12:34:56.123456+02"}', '{"2026-01-30 12:34:56.123456"}', ARRAY['{"a": 1}'::jsonb], '{12:34:56.123}', '{a,bcd}', '{10.0.0.1}'),
  (2, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE others (id int PRIMARY KEY, h hstore, pt point, c pair, mr int4multirange, l pg_lsn, q tsquery, ln line, bx box, pa path, pg polygon, ci circle, ls lseg);
INSERT INTO others VALUES (1, 'a=>1, b=>NULL, "c d"=>"x\"y"', '(1.5,-2)', '(1,x)', '{[1,2),[5,6)}', '16/B374D848', 'a & b', '{1,2,3}', '(2,2),(0,0)', '((0,0),(1,1))', '((0,0),(1,0),(1,1))', '<(1,2),3>', '[(0,0),(1,1)]'), (2, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE "Odd Names" ("The Key" int, "täble" text, "sélect-x.y" int, PRIMARY KEY ("sélect-x.y", "The Key"));
INSERT INTO "Odd Names" VALUES (1, 'a', 2);
CREATE TABLE full_identity (id int PRIMARY KEY, v text, n int);
ALTER TABLE full_identity REPLICA IDENTITY FULL;
INSERT INTO full_identity VALUES (1, 'a', 1), (2, 'b', 2);
CREATE TABLE keyless (v text, n int);
ALTER TABLE keyless REPLICA IDENTITY FULL;
INSERT INTO keyless VALUES ('a', 1);
CREATE TABLE toasted (id int PRIMARY KEY, n int, big text, bin bytea, arr text[], j jsonb);
ALTER TABLE toasted ALTER big SET STORAGE EXTERNAL, ALTER bin SET STORAGE EXTERNAL, ALTER arr SET STORAGE EXTERNAL, ALTER j SET STORAGE EXTERNAL;
INSERT INTO toasted VALUES (1, 1, repeat('x', 3000), decode(repeat('ab', 3000), 'hex'), ARRAY[repeat('y', 3000)], to_jsonb(repeat('z', 3000)));
CREATE TABLE strict (id int PRIMARY KEY, i2 smallint NOT NULL, i int NOT NULL, l bigint NOT NULL, f real NOT NULL, t text NOT NULL, b boolean NOT NULL, by bytea NOT NULL, d date NOT NULL, ts timestamp NOT NULL, tz timestamptz NOT NULL, n numeric(5,2) NOT NULL, nn numeric NOT NULL, u uuid NOT NULL, j jsonb NOT NULL, e mood NOT NULL, a int[] NOT NULL, iv interval NOT NULL, t6 time NOT NULL, bi bit(8) NOT NULL, b1 bit NOT NULL, h hstore NOT NULL, p point NOT NULL, r int4range NOT NULL, x xml NOT NULL);
INSERT INTO strict VALUES (1, 1, 1, 1, 1, 'a', true, '\x01', '2026-01-01', '2026-01-01', '2026-01-01', 1, 1, '0123abcd-4567-89ab-cdef-0123456789ab', '{}', 'sad', '{1}', '1 day', '01:00', '00000001', '1', 'a=>1', '(1,2)', '[1,2)', '<a/>');
CREATE TABLE done (id int PRIMARY KEY);
INSERT INTO done VALUES (1);

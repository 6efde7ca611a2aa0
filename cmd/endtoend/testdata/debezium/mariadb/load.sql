-- Tables of every type that Debezium carries, with the edge cases that it can represent. The changes are in changes.sql.
SET time_zone = '+00:00', sql_mode = '';
CREATE TABLE numbers (id int PRIMARY KEY, t tinyint, tu tinyint unsigned, t1 tinyint(1), s smallint, su smallint unsigned, m mediumint, mu mediumint unsigned, i int NOT NULL, iu int unsigned, b bigint, bu bigint unsigned, z int(6) zerofill, d10_2 decimal(10,2), du decimal(6,2) unsigned, d65 decimal(65,30), f float, d double, bo boolean, y year);
INSERT INTO numbers VALUES
  (1, -128, 255, 2, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, -9223372036854775808, 9223372036854775807, 42, 12345678.90, 9999.99, 12345678901234567890123456789012345.123456789012345678901234567890, 1.5, 1.7976931348623157e308, true, 2026),
  (2, 127, 0, -1, 32767, 0, 8388607, 0, 2147483647, 0, 9223372036854775807, 0, 0, -0.01, 0, -0.000000000000000000000000000001, 0.1, 2.2250738585072014e-308, false, 1901),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE texts (id int PRIMARY KEY, c char(5), v varchar(20), t text, l varchar(20) CHARACTER SET latin1, e enum('a','b c','it''s'), s set('x','y','z'), lt longtext);
INSERT INTO texts VALUES (1, 'ab', 'čaj', 'line\nbreak\t"quote" \\ / 😀 <&>', 'été€', 'it''s', 'x,z', 'x'), (2, '', '', '', '', 'a', '', ''), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE bins (id int PRIMARY KEY, b binary(4), vb varbinary(10), bl blob, b1 bit(1), b8 bit(8), b12 bit(12), b64 bit(64));
INSERT INTO bins VALUES (1, x'01020000', x'00ff3e3f', x'deadbeef', b'1', b'10000001', b'101', b'1000000000000000000000000000000000000000000000000000000000000001'), (2, '', '', '', b'0', b'0', b'0', b'0'), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE times (id int PRIMARY KEY, d date, t time, t3 time(3), t6 time(6), dt datetime, dt3 datetime(3), dt6 datetime(6), ts timestamp NULL, ts3 timestamp(3) NULL, ts6 timestamp(6) NULL);
INSERT INTO times VALUES
  (1, '2026-01-30', '12:34:56', '12:34:56.123', '12:34:56.123456', '2026-01-30 12:34:56', '2026-01-30 12:34:56.123', '2026-01-30 12:34:56.123456', '2026-01-30 12:34:56', '2026-01-30 12:34:56.125', '2026-01-30 12:34:56.123456'),
  (2, '1969-12-31', '00:00:00', '23:59:59.999', '23:59:59.999999', '1969-12-31 23:59:59', '1969-12-31 23:59:59.999', '1900-01-01', '1970-01-01 00:00:01', '2038-01-19 03:14:07.999', '2038-01-19 03:14:07.999999'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE places (id int PRIMARY KEY, p point, l linestring, g geometry);
INSERT INTO places VALUES (1, ST_GeomFromText('POINT(1.5 -2)'), ST_GeomFromText('LINESTRING(0 0,1 1)'), ST_GeomFromText('POINT(3 4)', 4326)), (2, NULL, NULL, NULL);
CREATE TABLE `Odd Names` (`The Key` int, `täble` text, `sélect-x.y` int, PRIMARY KEY (`sélect-x.y`, `The Key`));
INSERT INTO `Odd Names` VALUES (1, 'a', 2);
CREATE TABLE keyless (v text, n int);
INSERT INTO keyless VALUES ('a', 1);
CREATE TABLE plain (id int PRIMARY KEY, v text, n int NOT NULL);
INSERT INTO plain VALUES (1, 'a', 1), (2, 'b', 2);
CREATE TABLE done (id int PRIMARY KEY);
INSERT INTO done VALUES (1);

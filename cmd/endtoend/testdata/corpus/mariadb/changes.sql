-- Type fidelity corpus, MariaDB side: changes over the tables of load.sql.
--
--   mariadb --default-character-set=utf8mb4 --comments ... < changes.sql > /dev/null
--
-- (--comments sends the comments inside statements to the server, and so into the binlog; /dev/null takes what ANALYZE and OPTIMIZE report)
--
-- Run it once, on a server freshly loaded with load.sql, while replication is running (or with a binlog position noted before).
-- The source needs log_bin, binlog_format=ROW, binlog_row_image=FULL; the script itself does not look at them. The user needs rights to
-- create procedures, triggers and views (with log_bin on: SUPER, or log_bin_trust_function_creators=1). Section 7 uses the client's own
-- command "connect", so run it with the mariadb client. Every statement is committed by itself unless a transaction is opened.

SET NAMES utf8mb4;
SET SESSION time_zone = '+00:00';
SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION';
SET SESSION foreign_key_checks = 1;

-- =====================================================================================
-- 1. Every type table: each value goes through INSERT, UPDATE, key change and DELETE
-- =====================================================================================
-- per table: a copy of each row under id + 1000; labels changed; every third copy takes the values of the row before it; one row set to NULL;
-- one key changed; rows deleted
USE corpus_types;
-- Mixed Table
INSERT INTO `Mixed Table` (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM `Mixed Table` WHERE id <= 1000 ORDER BY id;
UPDATE `Mixed Table` SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE `Mixed Table` AS a JOIN `Mixed Table` AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE `Mixed Table` SET v = NULL WHERE id = 1002;
UPDATE `Mixed Table` SET id = 5001 WHERE id = 1001;
DELETE FROM `Mixed Table` WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- a table name of exactly sixty-four characters, longest allowed..
INSERT INTO `a table name of exactly sixty-four characters, longest allowed..` (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM `a table name of exactly sixty-four characters, longest allowed..` WHERE id <= 1000 ORDER BY id;
UPDATE `a table name of exactly sixty-four characters, longest allowed..` SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE `a table name of exactly sixty-four characters, longest allowed..` AS a JOIN `a table name of exactly sixty-four characters, longest allowed..` AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE `a table name of exactly sixty-four characters, longest allowed..` SET v = NULL WHERE id = 1002;
UPDATE `a table name of exactly sixty-four characters, longest allowed..` SET id = 5001 WHERE id = 1001;
DELETE FROM `a table name of exactly sixty-four characters, longest allowed..` WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- back`tick "table" 'q'
INSERT INTO `back``tick "table" 'q'` (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM `back``tick "table" 'q'` WHERE id <= 1000 ORDER BY id;
UPDATE `back``tick "table" 'q'` SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE `back``tick "table" 'q'` AS a JOIN `back``tick "table" 'q'` AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE `back``tick "table" 'q'` SET v = NULL WHERE id = 1002;
UPDATE `back``tick "table" 'q'` SET id = 5001 WHERE id = 1001;
DELETE FROM `back``tick "table" 'q'` WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- dot.ted
INSERT INTO `dot.ted` (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM `dot.ted` WHERE id <= 1000 ORDER BY id;
UPDATE `dot.ted` SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE `dot.ted` AS a JOIN `dot.ted` AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE `dot.ted` SET v = NULL WHERE id = 1002;
UPDATE `dot.ted` SET id = 5001 WHERE id = 1001;
DELETE FROM `dot.ted` WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- mixed table
INSERT INTO `mixed table` (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM `mixed table` WHERE id <= 1000 ORDER BY id;
UPDATE `mixed table` SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE `mixed table` AS a JOIN `mixed table` AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE `mixed table` SET v = NULL WHERE id = 1002;
UPDATE `mixed table` SET id = 5001 WHERE id = 1001;
DELETE FROM `mixed table` WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- select
INSERT INTO `select` (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM `select` WHERE id <= 1000 ORDER BY id;
UPDATE `select` SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE `select` AS a JOIN `select` AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE `select` SET v = NULL WHERE id = 1002;
UPDATE `select` SET id = 5001 WHERE id = 1001;
DELETE FROM `select` WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- slash/back\ 100% $x *?
INSERT INTO `slash/back\ 100% $x *?` (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM `slash/back\ 100% $x *?` WHERE id <= 1000 ORDER BY id;
UPDATE `slash/back\ 100% $x *?` SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE `slash/back\ 100% $x *?` AS a JOIN `slash/back\ 100% $x *?` AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE `slash/back\ 100% $x *?` SET v = NULL WHERE id = 1002;
UPDATE `slash/back\ 100% $x *?` SET id = 5001 WHERE id = 1001;
DELETE FROM `slash/back\ 100% $x *?` WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_all_null
INSERT INTO t_all_null (id, label, v_int, v_text, v_dec, v_dt, v_ts, v_json, v_bit, v_enum, v_set, v_geo, v_blob, v_year, v_time, v_float) SELECT id + 1000, CONCAT('cdc: ', label), v_int, v_text, v_dec, v_dt, v_ts, v_json, v_bit, v_enum, v_set, v_geo, v_blob, v_year, v_time, v_float FROM t_all_null WHERE id <= 1000 ORDER BY id;
UPDATE t_all_null SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_all_null AS a JOIN t_all_null AS b ON b.id = a.id - 1001 SET a.v_int = b.v_int, a.v_text = b.v_text, a.v_dec = b.v_dec, a.v_dt = b.v_dt, a.v_ts = b.v_ts, a.v_json = b.v_json, a.v_bit = b.v_bit, a.v_enum = b.v_enum, a.v_set = b.v_set, a.v_geo = b.v_geo, a.v_blob = b.v_blob, a.v_year = b.v_year, a.v_time = b.v_time, a.v_float = b.v_float WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_all_null SET v_int = NULL, v_text = NULL, v_dec = NULL, v_dt = NULL, v_ts = NULL, v_json = NULL, v_bit = NULL, v_enum = NULL, v_set = NULL, v_geo = NULL, v_blob = NULL, v_year = NULL, v_time = NULL, v_float = NULL WHERE id = 1002;
UPDATE t_all_null SET id = 5001 WHERE id = 1001;
DELETE FROM t_all_null WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_auto_increment
INSERT INTO t_auto_increment (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM t_auto_increment WHERE id <= 1000 ORDER BY id;
UPDATE t_auto_increment SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_auto_increment AS a JOIN t_auto_increment AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_auto_increment SET v = NULL WHERE id = 1002;
UPDATE t_auto_increment SET id = 5001 WHERE id = 1001;
DELETE FROM t_auto_increment WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_bigint
INSERT INTO t_bigint (id, label, v, v_u, v_z) SELECT id + 1000, CONCAT('cdc: ', label), v, v_u, v_z FROM t_bigint WHERE id <= 1000 ORDER BY id;
UPDATE t_bigint SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_bigint AS a JOIN t_bigint AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_u = b.v_u, a.v_z = b.v_z WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_bigint SET v = NULL, v_u = NULL, v_z = NULL WHERE id = 1002;
UPDATE t_bigint SET id = 5001 WHERE id = 1001;
DELETE FROM t_bigint WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_binary
INSERT INTO t_binary (id, label, v, v_vb, v_tiny, v_b, v_cb) SELECT id + 1000, CONCAT('cdc: ', label), v, v_vb, v_tiny, v_b, v_cb FROM t_binary WHERE id <= 1000 ORDER BY id;
UPDATE t_binary SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_binary AS a JOIN t_binary AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_vb = b.v_vb, a.v_tiny = b.v_tiny, a.v_b = b.v_b, a.v_cb = b.v_cb WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_binary SET v = NULL, v_vb = NULL, v_tiny = NULL, v_b = NULL, v_cb = NULL WHERE id = 1002;
UPDATE t_binary SET id = 5001 WHERE id = 1001;
DELETE FROM t_binary WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_bit
INSERT INTO t_bit (id, label, v, v8, v12, v64) SELECT id + 1000, CONCAT('cdc: ', label), v, v8, v12, v64 FROM t_bit WHERE id <= 1000 ORDER BY id;
UPDATE t_bit SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_bit AS a JOIN t_bit AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v8 = b.v8, a.v12 = b.v12, a.v64 = b.v64 WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_bit SET v = NULL, v8 = NULL, v12 = NULL, v64 = NULL WHERE id = 1002;
UPDATE t_bit SET id = 5001 WHERE id = 1001;
DELETE FROM t_bit WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_blob_big
INSERT INTO t_blob_big (id, label, v, v_long, small) SELECT id + 1000, CONCAT('cdc: ', label), v, v_long, small FROM t_blob_big WHERE id <= 1000 ORDER BY id;
UPDATE t_blob_big SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_blob_big AS a JOIN t_blob_big AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_long = b.v_long, a.small = b.small WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_blob_big SET v = NULL, v_long = NULL, small = NULL WHERE id = 1002;
UPDATE t_blob_big SET id = 5001 WHERE id = 1001;
DELETE FROM t_blob_big WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_char_latin1
INSERT INTO t_char_latin1 (id, label, v, v_vc, v_t, v_e, v_s) SELECT id + 1000, CONCAT('cdc: ', label), v, v_vc, v_t, v_e, v_s FROM t_char_latin1 WHERE id <= 1000 ORDER BY id;
UPDATE t_char_latin1 SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_char_latin1 AS a JOIN t_char_latin1 AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_vc = b.v_vc, a.v_t = b.v_t, a.v_e = b.v_e, a.v_s = b.v_s WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_char_latin1 SET v = NULL, v_vc = NULL, v_t = NULL, v_e = NULL, v_s = NULL WHERE id = 1002;
UPDATE t_char_latin1 SET id = 5001 WHERE id = 1001;
DELETE FROM t_char_latin1 WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_char_utf8mb3
INSERT INTO t_char_utf8mb3 (id, label, v, v_vc, v_t) SELECT id + 1000, CONCAT('cdc: ', label), v, v_vc, v_t FROM t_char_utf8mb3 WHERE id <= 1000 ORDER BY id;
UPDATE t_char_utf8mb3 SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_char_utf8mb3 AS a JOIN t_char_utf8mb3 AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_vc = b.v_vc, a.v_t = b.v_t WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_char_utf8mb3 SET v = NULL, v_vc = NULL, v_t = NULL WHERE id = 1002;
UPDATE t_char_utf8mb3 SET id = 5001 WHERE id = 1001;
DELETE FROM t_char_utf8mb3 WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_char_utf8mb4
INSERT INTO t_char_utf8mb4 (id, label, v, v_vc, v_t) SELECT id + 1000, CONCAT('cdc: ', label), v, v_vc, v_t FROM t_char_utf8mb4 WHERE id <= 1000 ORDER BY id;
UPDATE t_char_utf8mb4 SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_char_utf8mb4 AS a JOIN t_char_utf8mb4 AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_vc = b.v_vc, a.v_t = b.v_t WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_char_utf8mb4 SET v = NULL, v_vc = NULL, v_t = NULL WHERE id = 1002;
UPDATE t_char_utf8mb4 SET id = 5001 WHERE id = 1001;
DELETE FROM t_char_utf8mb4 WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_charsets
INSERT INTO t_charsets (id, label, v_latin1, v_latin2, v_cp1251, v_koi8r, v_greek, v_hebrew, v_sjis, v_ujis, v_gbk, v_big5, v_euckr, v_ucs2, v_utf16, v_utf16le, v_utf32, v_ascii, v_cp850, v_c_utf16, v_t_sjis) SELECT id + 1000, CONCAT('cdc: ', label), v_latin1, v_latin2, v_cp1251, v_koi8r, v_greek, v_hebrew, v_sjis, v_ujis, v_gbk, v_big5, v_euckr, v_ucs2, v_utf16, v_utf16le, v_utf32, v_ascii, v_cp850, v_c_utf16, v_t_sjis FROM t_charsets WHERE id <= 1000 ORDER BY id;
UPDATE t_charsets SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_charsets AS a JOIN t_charsets AS b ON b.id = a.id - 1001 SET a.v_latin1 = b.v_latin1, a.v_latin2 = b.v_latin2, a.v_cp1251 = b.v_cp1251, a.v_koi8r = b.v_koi8r, a.v_greek = b.v_greek, a.v_hebrew = b.v_hebrew, a.v_sjis = b.v_sjis, a.v_ujis = b.v_ujis, a.v_gbk = b.v_gbk, a.v_big5 = b.v_big5, a.v_euckr = b.v_euckr, a.v_ucs2 = b.v_ucs2, a.v_utf16 = b.v_utf16, a.v_utf16le = b.v_utf16le, a.v_utf32 = b.v_utf32, a.v_ascii = b.v_ascii, a.v_cp850 = b.v_cp850, a.v_c_utf16 = b.v_c_utf16, a.v_t_sjis = b.v_t_sjis WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_charsets SET v_latin1 = NULL, v_latin2 = NULL, v_cp1251 = NULL, v_koi8r = NULL, v_greek = NULL, v_hebrew = NULL, v_sjis = NULL, v_ujis = NULL, v_gbk = NULL, v_big5 = NULL, v_euckr = NULL, v_ucs2 = NULL, v_utf16 = NULL, v_utf16le = NULL, v_utf32 = NULL, v_ascii = NULL, v_cp850 = NULL, v_c_utf16 = NULL, v_t_sjis = NULL WHERE id = 1002;
UPDATE t_charsets SET id = 5001 WHERE id = 1001;
DELETE FROM t_charsets WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_collations
INSERT INTO t_collations (id, label, v_ci, v_bin, v_nopad, v_uca) SELECT id + 1000, CONCAT('cdc: ', label), v_ci, v_bin, v_nopad, v_uca FROM t_collations WHERE id <= 1000 ORDER BY id;
UPDATE t_collations SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_collations AS a JOIN t_collations AS b ON b.id = a.id - 1001 SET a.v_ci = b.v_ci, a.v_bin = b.v_bin, a.v_nopad = b.v_nopad, a.v_uca = b.v_uca WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_collations SET v_ci = NULL, v_bin = NULL, v_nopad = NULL, v_uca = NULL WHERE id = 1002;
UPDATE t_collations SET id = 5001 WHERE id = 1001;
DELETE FROM t_collations WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_columns
INSERT INTO t_columns (id, label, `MixedCase`, `with space`, `select`, `key`, `back``tick`, `double"quote`, `apos'trophe`, `ünïcode`, `表`, `dot.ted`, `back\slash`, `slash/ed`, ` leading`, 1digit, `$dollar`, `100%`, `a:b`, `a,b`, `a-b`, `[x]`, `{x}`, `?`, `@at`, `#hash`, `--dash`, `before`, `after`, `op`, __deleted, `a column name of exactly sixty-four characters, longest allowed.`) SELECT id + 1000, CONCAT('cdc: ', label), `MixedCase`, `with space`, `select`, `key`, `back``tick`, `double"quote`, `apos'trophe`, `ünïcode`, `表`, `dot.ted`, `back\slash`, `slash/ed`, ` leading`, 1digit, `$dollar`, `100%`, `a:b`, `a,b`, `a-b`, `[x]`, `{x}`, `?`, `@at`, `#hash`, `--dash`, `before`, `after`, `op`, __deleted, `a column name of exactly sixty-four characters, longest allowed.` FROM t_columns WHERE id <= 1000 ORDER BY id;
UPDATE t_columns SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_columns AS a JOIN t_columns AS b ON b.id = a.id - 1001 SET a.`MixedCase` = b.`MixedCase`, a.`with space` = b.`with space`, a.`select` = b.`select`, a.`key` = b.`key`, a.`back``tick` = b.`back``tick`, a.`double"quote` = b.`double"quote`, a.`apos'trophe` = b.`apos'trophe`, a.`ünïcode` = b.`ünïcode`, a.`表` = b.`表`, a.`dot.ted` = b.`dot.ted`, a.`back\slash` = b.`back\slash`, a.`slash/ed` = b.`slash/ed`, a.` leading` = b.` leading`, a.1digit = b.1digit, a.`$dollar` = b.`$dollar`, a.`100%` = b.`100%`, a.`a:b` = b.`a:b`, a.`a,b` = b.`a,b`, a.`a-b` = b.`a-b`, a.`[x]` = b.`[x]`, a.`{x}` = b.`{x}`, a.`?` = b.`?`, a.`@at` = b.`@at`, a.`#hash` = b.`#hash`, a.`--dash` = b.`--dash`, a.`before` = b.`before`, a.`after` = b.`after`, a.`op` = b.`op`, a.__deleted = b.__deleted, a.`a column name of exactly sixty-four characters, longest allowed.` = b.`a column name of exactly sixty-four characters, longest allowed.` WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_columns SET `MixedCase` = NULL, `with space` = NULL, `select` = NULL, `key` = NULL, `back``tick` = NULL, `double"quote` = NULL, `apos'trophe` = NULL, `ünïcode` = NULL, `表` = NULL, `dot.ted` = NULL, `back\slash` = NULL, `slash/ed` = NULL, ` leading` = NULL, 1digit = NULL, `$dollar` = NULL, `100%` = NULL, `a:b` = NULL, `a,b` = NULL, `a-b` = NULL, `[x]` = NULL, `{x}` = NULL, `?` = NULL, `@at` = NULL, `#hash` = NULL, `--dash` = NULL, `before` = NULL, `after` = NULL, `op` = NULL, __deleted = NULL, `a column name of exactly sixty-four characters, longest allowed.` = NULL WHERE id = 1002;
UPDATE t_columns SET id = 5001 WHERE id = 1001;
DELETE FROM t_columns WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_compressed
INSERT INTO t_compressed (id, label, v, v_t, v_b, v_vb) SELECT id + 1000, CONCAT('cdc: ', label), v, v_t, v_b, v_vb FROM t_compressed WHERE id <= 1000 ORDER BY id;
UPDATE t_compressed SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_compressed AS a JOIN t_compressed AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_t = b.v_t, a.v_b = b.v_b, a.v_vb = b.v_vb WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_compressed SET v = NULL, v_t = NULL, v_b = NULL, v_vb = NULL WHERE id = 1002;
UPDATE t_compressed SET id = 5001 WHERE id = 1001;
DELETE FROM t_compressed WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_date
INSERT INTO t_date (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM t_date WHERE id <= 1000 ORDER BY id;
UPDATE t_date SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_date AS a JOIN t_date AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_date SET v = NULL WHERE id = 1002;
UPDATE t_date SET id = 5001 WHERE id = 1001;
DELETE FROM t_date WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_datetime
INSERT INTO t_datetime (id, label, v, v_0, v_3) SELECT id + 1000, CONCAT('cdc: ', label), v, v_0, v_3 FROM t_datetime WHERE id <= 1000 ORDER BY id;
UPDATE t_datetime SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_datetime AS a JOIN t_datetime AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_0 = b.v_0, a.v_3 = b.v_3 WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_datetime SET v = NULL, v_0 = NULL, v_3 = NULL WHERE id = 1002;
UPDATE t_datetime SET id = 5001 WHERE id = 1001;
DELETE FROM t_datetime WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_decimal
INSERT INTO t_decimal (id, label, v, v_0, v_30, v_5, v_u, v_z, v_d) SELECT id + 1000, CONCAT('cdc: ', label), v, v_0, v_30, v_5, v_u, v_z, v_d FROM t_decimal WHERE id <= 1000 ORDER BY id;
UPDATE t_decimal SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_decimal AS a JOIN t_decimal AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_0 = b.v_0, a.v_30 = b.v_30, a.v_5 = b.v_5, a.v_u = b.v_u, a.v_z = b.v_z, a.v_d = b.v_d WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_decimal SET v = NULL, v_0 = NULL, v_30 = NULL, v_5 = NULL, v_u = NULL, v_z = NULL, v_d = NULL WHERE id = 1002;
UPDATE t_decimal SET id = 5001 WHERE id = 1001;
DELETE FROM t_decimal WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_default
SET SESSION timestamp = 1706843045.654321;   -- a fixed clock, for the columns that take the current time
INSERT INTO t_default (id, label, v, v_t, v_x, v_d, v_bit, v_e, v_ts, v_upd) SELECT id + 1000, CONCAT('cdc: ', label), v, v_t, v_x, v_d, v_bit, v_e, v_ts, v_upd FROM t_default WHERE id <= 1000 ORDER BY id;
UPDATE t_default SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_default AS a JOIN t_default AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_t = b.v_t, a.v_x = b.v_x, a.v_d = b.v_d, a.v_bit = b.v_bit, a.v_e = b.v_e, a.v_ts = b.v_ts, a.v_upd = b.v_upd WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_default SET v = NULL, v_x = NULL, v_d = NULL, v_bit = NULL, v_e = NULL, v_ts = NULL, v_upd = NULL WHERE id = 1002;
UPDATE t_default SET id = 5001 WHERE id = 1001;
DELETE FROM t_default WHERE id = 3 OR id > 1000 AND id % 7 = 0;
SET SESSION timestamp = DEFAULT;
-- t_double
INSERT INTO t_double (id, label, v, v_md, v_u, v_53) SELECT id + 1000, CONCAT('cdc: ', label), v, v_md, v_u, v_53 FROM t_double WHERE id <= 1000 ORDER BY id;
UPDATE t_double SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_double AS a JOIN t_double AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_md = b.v_md, a.v_u = b.v_u, a.v_53 = b.v_53 WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_double SET v = NULL, v_md = NULL, v_u = NULL, v_53 = NULL WHERE id = 1002;
UPDATE t_double SET id = 5001 WHERE id = 1001;
DELETE FROM t_double WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_enum
INSERT INTO t_enum (id, label, v, v_nn) SELECT id + 1000, CONCAT('cdc: ', label), v, v_nn FROM t_enum WHERE id <= 1000 ORDER BY id;
UPDATE t_enum SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_enum AS a JOIN t_enum AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_nn = b.v_nn WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_enum SET v = NULL WHERE id = 1002;
UPDATE t_enum SET id = 5001 WHERE id = 1001;
DELETE FROM t_enum WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_enum_empty
INSERT INTO t_enum_empty (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM t_enum_empty WHERE id <= 1000 ORDER BY id;
UPDATE t_enum_empty SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_enum_empty AS a JOIN t_enum_empty AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_enum_empty SET v = NULL WHERE id = 1002;
UPDATE t_enum_empty SET id = 5001 WHERE id = 1001;
DELETE FROM t_enum_empty WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_float
INSERT INTO t_float (id, label, v, v_md, v_u) SELECT id + 1000, CONCAT('cdc: ', label), v, v_md, v_u FROM t_float WHERE id <= 1000 ORDER BY id;
UPDATE t_float SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_float AS a JOIN t_float AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_md = b.v_md, a.v_u = b.v_u WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_float SET v = NULL, v_md = NULL, v_u = NULL WHERE id = 1002;
UPDATE t_float SET id = 5001 WHERE id = 1001;
DELETE FROM t_float WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_generated
INSERT INTO t_generated (id, label, v, v_txt, v_last) SELECT id + 1000, CONCAT('cdc: ', label), v, v_txt, v_last FROM t_generated WHERE id <= 1000 ORDER BY id;
UPDATE t_generated SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_generated AS a JOIN t_generated AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_txt = b.v_txt, a.v_last = b.v_last WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_generated SET v = NULL, v_txt = NULL, v_last = NULL WHERE id = 1002;
UPDATE t_generated SET id = 5001 WHERE id = 1001;
DELETE FROM t_generated WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_geometry
INSERT INTO t_geometry (id, label, v, v_point, v_line, v_poly, v_mp, v_gc) SELECT id + 1000, CONCAT('cdc: ', label), v, v_point, v_line, v_poly, v_mp, v_gc FROM t_geometry WHERE id <= 1000 ORDER BY id;
UPDATE t_geometry SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_geometry AS a JOIN t_geometry AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_point = b.v_point, a.v_line = b.v_line, a.v_poly = b.v_poly, a.v_mp = b.v_mp, a.v_gc = b.v_gc WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_geometry SET v = NULL, v_point = NULL, v_line = NULL, v_poly = NULL, v_mp = NULL, v_gc = NULL WHERE id = 1002;
UPDATE t_geometry SET id = 5001 WHERE id = 1001;
DELETE FROM t_geometry WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_inet
INSERT INTO t_inet (id, label, v, v_4) SELECT id + 1000, CONCAT('cdc: ', label), v, v_4 FROM t_inet WHERE id <= 1000 ORDER BY id;
UPDATE t_inet SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_inet AS a JOIN t_inet AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_4 = b.v_4 WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_inet SET v = NULL, v_4 = NULL WHERE id = 1002;
UPDATE t_inet SET id = 5001 WHERE id = 1001;
DELETE FROM t_inet WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_int
INSERT INTO t_int (id, label, v, v_u, v_z) SELECT id + 1000, CONCAT('cdc: ', label), v, v_u, v_z FROM t_int WHERE id <= 1000 ORDER BY id;
UPDATE t_int SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_int AS a JOIN t_int AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_u = b.v_u, a.v_z = b.v_z WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_int SET v = NULL, v_u = NULL, v_z = NULL WHERE id = 1002;
UPDATE t_int SET id = 5001 WHERE id = 1001;
DELETE FROM t_int WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_invisible
INSERT INTO t_invisible (id, label, v, v_last) SELECT id + 1000, CONCAT('cdc: ', label), v, v_last FROM t_invisible WHERE id <= 1000 ORDER BY id;
UPDATE t_invisible SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_invisible AS a JOIN t_invisible AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_last = b.v_last WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_invisible SET v = NULL, v_last = NULL WHERE id = 1002;
UPDATE t_invisible SET id = 5001 WHERE id = 1001;
DELETE FROM t_invisible WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_json
INSERT INTO t_json (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM t_json WHERE id <= 1000 ORDER BY id;
UPDATE t_json SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_json AS a JOIN t_json AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_json SET v = NULL WHERE id = 1002;
UPDATE t_json SET id = 5001 WHERE id = 1001;
DELETE FROM t_json WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_mediumint
INSERT INTO t_mediumint (id, label, v, v_u) SELECT id + 1000, CONCAT('cdc: ', label), v, v_u FROM t_mediumint WHERE id <= 1000 ORDER BY id;
UPDATE t_mediumint SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_mediumint AS a JOIN t_mediumint AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_u = b.v_u WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_mediumint SET v = NULL, v_u = NULL WHERE id = 1002;
UPDATE t_mediumint SET id = 5001 WHERE id = 1001;
DELETE FROM t_mediumint WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_set
INSERT INTO t_set (id, label, v, v_64) SELECT id + 1000, CONCAT('cdc: ', label), v, v_64 FROM t_set WHERE id <= 1000 ORDER BY id;
UPDATE t_set SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_set AS a JOIN t_set AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_64 = b.v_64 WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_set SET v = NULL, v_64 = NULL WHERE id = 1002;
UPDATE t_set SET id = 5001 WHERE id = 1001;
DELETE FROM t_set WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_smallint
INSERT INTO t_smallint (id, label, v, v_u) SELECT id + 1000, CONCAT('cdc: ', label), v, v_u FROM t_smallint WHERE id <= 1000 ORDER BY id;
UPDATE t_smallint SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_smallint AS a JOIN t_smallint AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_u = b.v_u WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_smallint SET v = NULL, v_u = NULL WHERE id = 1002;
UPDATE t_smallint SET id = 5001 WHERE id = 1001;
DELETE FROM t_smallint WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_text
INSERT INTO t_text (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM t_text WHERE id <= 1000 ORDER BY id;
UPDATE t_text SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_text AS a JOIN t_text AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_text SET v = NULL WHERE id = 1002;
UPDATE t_text SET id = 5001 WHERE id = 1001;
DELETE FROM t_text WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_text_big
INSERT INTO t_text_big (id, label, v, v_long, small) SELECT id + 1000, CONCAT('cdc: ', label), v, v_long, small FROM t_text_big WHERE id <= 1000 ORDER BY id;
UPDATE t_text_big SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_text_big AS a JOIN t_text_big AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_long = b.v_long, a.small = b.small WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_text_big SET v = NULL, v_long = NULL, small = NULL WHERE id = 1002;
UPDATE t_text_big SET id = 5001 WHERE id = 1001;
DELETE FROM t_text_big WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_text_nul
INSERT INTO t_text_nul (id, label, v, v_t) SELECT id + 1000, CONCAT('cdc: ', label), v, v_t FROM t_text_nul WHERE id <= 1000 ORDER BY id;
UPDATE t_text_nul SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_text_nul AS a JOIN t_text_nul AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_t = b.v_t WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_text_nul SET v = NULL, v_t = NULL WHERE id = 1002;
UPDATE t_text_nul SET id = 5001 WHERE id = 1001;
DELETE FROM t_text_nul WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_text_sizes
INSERT INTO t_text_sizes (id, label, v_tiny, v, v_medium, v_long, v_255, v_256) SELECT id + 1000, CONCAT('cdc: ', label), v_tiny, v, v_medium, v_long, v_255, v_256 FROM t_text_sizes WHERE id <= 1000 ORDER BY id;
UPDATE t_text_sizes SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_text_sizes AS a JOIN t_text_sizes AS b ON b.id = a.id - 1001 SET a.v_tiny = b.v_tiny, a.v = b.v, a.v_medium = b.v_medium, a.v_long = b.v_long, a.v_255 = b.v_255, a.v_256 = b.v_256 WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_text_sizes SET v_tiny = NULL, v = NULL, v_medium = NULL, v_long = NULL, v_255 = NULL, v_256 = NULL WHERE id = 1002;
UPDATE t_text_sizes SET id = 5001 WHERE id = 1001;
DELETE FROM t_text_sizes WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_time
INSERT INTO t_time (id, label, v, v_0, v_3) SELECT id + 1000, CONCAT('cdc: ', label), v, v_0, v_3 FROM t_time WHERE id <= 1000 ORDER BY id;
UPDATE t_time SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_time AS a JOIN t_time AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_0 = b.v_0, a.v_3 = b.v_3 WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_time SET v = NULL, v_0 = NULL, v_3 = NULL WHERE id = 1002;
UPDATE t_time SET id = 5001 WHERE id = 1001;
DELETE FROM t_time WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_timestamp
INSERT INTO t_timestamp (id, label, v, v_0, v_3) SELECT id + 1000, CONCAT('cdc: ', label), v, v_0, v_3 FROM t_timestamp WHERE id <= 1000 ORDER BY id;
UPDATE t_timestamp SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_timestamp AS a JOIN t_timestamp AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_0 = b.v_0, a.v_3 = b.v_3 WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_timestamp SET v = NULL, v_0 = NULL, v_3 = NULL WHERE id = 1002;
UPDATE t_timestamp SET id = 5001 WHERE id = 1001;
DELETE FROM t_timestamp WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_timestamp_not_null
INSERT INTO t_timestamp_not_null (id, label, v, v_date) SELECT id + 1000, CONCAT('cdc: ', label), v, v_date FROM t_timestamp_not_null WHERE id <= 1000 ORDER BY id;
UPDATE t_timestamp_not_null SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_timestamp_not_null AS a JOIN t_timestamp_not_null AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_date = b.v_date WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_timestamp_not_null SET id = 5001 WHERE id = 1001;
DELETE FROM t_timestamp_not_null WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_tinyint
INSERT INTO t_tinyint (id, label, v, v_u, v_z) SELECT id + 1000, CONCAT('cdc: ', label), v, v_u, v_z FROM t_tinyint WHERE id <= 1000 ORDER BY id;
UPDATE t_tinyint SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_tinyint AS a JOIN t_tinyint AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_u = b.v_u, a.v_z = b.v_z WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_tinyint SET v = NULL, v_u = NULL, v_z = NULL WHERE id = 1002;
UPDATE t_tinyint SET id = 5001 WHERE id = 1001;
DELETE FROM t_tinyint WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_tinyint1
INSERT INTO t_tinyint1 (id, label, v, v_bool, v_u) SELECT id + 1000, CONCAT('cdc: ', label), v, v_bool, v_u FROM t_tinyint1 WHERE id <= 1000 ORDER BY id;
UPDATE t_tinyint1 SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_tinyint1 AS a JOIN t_tinyint1 AS b ON b.id = a.id - 1001 SET a.v = b.v, a.v_bool = b.v_bool, a.v_u = b.v_u WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_tinyint1 SET v = NULL, v_bool = NULL, v_u = NULL WHERE id = 1002;
UPDATE t_tinyint1 SET id = 5001 WHERE id = 1001;
DELETE FROM t_tinyint1 WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_uuid
INSERT INTO t_uuid (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM t_uuid WHERE id <= 1000 ORDER BY id;
UPDATE t_uuid SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_uuid AS a JOIN t_uuid AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_uuid SET v = NULL WHERE id = 1002;
UPDATE t_uuid SET id = 5001 WHERE id = 1001;
DELETE FROM t_uuid WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_wide
INSERT INTO t_wide (id, label, c001, c002, c003, c004, c005, c006, c007, c008, c009, c010, c011, c012, c013, c014, c015, c016, c017, c018, c019, c020, c021, c022, c023, c024, c025, c026, c027, c028, c029, c030, c031, c032, c033, c034, c035, c036, c037, c038, c039, c040, c041, c042, c043, c044, c045, c046, c047, c048, c049, c050, c051, c052, c053, c054, c055, c056, c057, c058, c059, c060, c061, c062, c063, c064, c065, c066, c067, c068, c069, c070, c071, c072, c073, c074, c075, c076, c077, c078, c079, c080, c081, c082, c083, c084, c085, c086, c087, c088, c089, c090, c091, c092, c093, c094, c095, c096, c097, c098, c099, c100, c101, c102, c103, c104, c105, c106, c107, c108, c109, c110, c111, c112, c113, c114, c115, c116, c117, c118, c119, c120) SELECT id + 1000, CONCAT('cdc: ', label), c001, c002, c003, c004, c005, c006, c007, c008, c009, c010, c011, c012, c013, c014, c015, c016, c017, c018, c019, c020, c021, c022, c023, c024, c025, c026, c027, c028, c029, c030, c031, c032, c033, c034, c035, c036, c037, c038, c039, c040, c041, c042, c043, c044, c045, c046, c047, c048, c049, c050, c051, c052, c053, c054, c055, c056, c057, c058, c059, c060, c061, c062, c063, c064, c065, c066, c067, c068, c069, c070, c071, c072, c073, c074, c075, c076, c077, c078, c079, c080, c081, c082, c083, c084, c085, c086, c087, c088, c089, c090, c091, c092, c093, c094, c095, c096, c097, c098, c099, c100, c101, c102, c103, c104, c105, c106, c107, c108, c109, c110, c111, c112, c113, c114, c115, c116, c117, c118, c119, c120 FROM t_wide WHERE id <= 1000 ORDER BY id;
UPDATE t_wide SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_wide AS a JOIN t_wide AS b ON b.id = a.id - 1001 SET a.c001 = b.c001, a.c002 = b.c002, a.c003 = b.c003, a.c004 = b.c004, a.c005 = b.c005, a.c006 = b.c006, a.c007 = b.c007, a.c008 = b.c008, a.c009 = b.c009, a.c010 = b.c010, a.c011 = b.c011, a.c012 = b.c012, a.c013 = b.c013, a.c014 = b.c014, a.c015 = b.c015, a.c016 = b.c016, a.c017 = b.c017, a.c018 = b.c018, a.c019 = b.c019, a.c020 = b.c020, a.c021 = b.c021, a.c022 = b.c022, a.c023 = b.c023, a.c024 = b.c024, a.c025 = b.c025, a.c026 = b.c026, a.c027 = b.c027, a.c028 = b.c028, a.c029 = b.c029, a.c030 = b.c030, a.c031 = b.c031, a.c032 = b.c032, a.c033 = b.c033, a.c034 = b.c034, a.c035 = b.c035, a.c036 = b.c036, a.c037 = b.c037, a.c038 = b.c038, a.c039 = b.c039, a.c040 = b.c040, a.c041 = b.c041, a.c042 = b.c042, a.c043 = b.c043, a.c044 = b.c044, a.c045 = b.c045, a.c046 = b.c046, a.c047 = b.c047, a.c048 = b.c048, a.c049 = b.c049, a.c050 = b.c050, a.c051 = b.c051, a.c052 = b.c052, a.c053 = b.c053, a.c054 = b.c054, a.c055 = b.c055, a.c056 = b.c056, a.c057 = b.c057, a.c058 = b.c058, a.c059 = b.c059, a.c060 = b.c060, a.c061 = b.c061, a.c062 = b.c062, a.c063 = b.c063, a.c064 = b.c064, a.c065 = b.c065, a.c066 = b.c066, a.c067 = b.c067, a.c068 = b.c068, a.c069 = b.c069, a.c070 = b.c070, a.c071 = b.c071, a.c072 = b.c072, a.c073 = b.c073, a.c074 = b.c074, a.c075 = b.c075, a.c076 = b.c076, a.c077 = b.c077, a.c078 = b.c078, a.c079 = b.c079, a.c080 = b.c080, a.c081 = b.c081, a.c082 = b.c082, a.c083 = b.c083, a.c084 = b.c084, a.c085 = b.c085, a.c086 = b.c086, a.c087 = b.c087, a.c088 = b.c088, a.c089 = b.c089, a.c090 = b.c090, a.c091 = b.c091, a.c092 = b.c092, a.c093 = b.c093, a.c094 = b.c094, a.c095 = b.c095, a.c096 = b.c096, a.c097 = b.c097, a.c098 = b.c098, a.c099 = b.c099, a.c100 = b.c100, a.c101 = b.c101, a.c102 = b.c102, a.c103 = b.c103, a.c104 = b.c104, a.c105 = b.c105, a.c106 = b.c106, a.c107 = b.c107, a.c108 = b.c108, a.c109 = b.c109, a.c110 = b.c110, a.c111 = b.c111, a.c112 = b.c112, a.c113 = b.c113, a.c114 = b.c114, a.c115 = b.c115, a.c116 = b.c116, a.c117 = b.c117, a.c118 = b.c118, a.c119 = b.c119, a.c120 = b.c120 WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_wide SET c001 = NULL, c002 = NULL, c003 = NULL, c004 = NULL, c005 = NULL, c006 = NULL, c007 = NULL, c008 = NULL, c009 = NULL, c010 = NULL, c011 = NULL, c012 = NULL, c013 = NULL, c014 = NULL, c015 = NULL, c016 = NULL, c017 = NULL, c018 = NULL, c019 = NULL, c020 = NULL, c021 = NULL, c022 = NULL, c023 = NULL, c024 = NULL, c025 = NULL, c026 = NULL, c027 = NULL, c028 = NULL, c029 = NULL, c030 = NULL, c031 = NULL, c032 = NULL, c033 = NULL, c034 = NULL, c035 = NULL, c036 = NULL, c037 = NULL, c038 = NULL, c039 = NULL, c040 = NULL, c041 = NULL, c042 = NULL, c043 = NULL, c044 = NULL, c045 = NULL, c046 = NULL, c047 = NULL, c048 = NULL, c049 = NULL, c050 = NULL, c051 = NULL, c052 = NULL, c053 = NULL, c054 = NULL, c055 = NULL, c056 = NULL, c057 = NULL, c058 = NULL, c059 = NULL, c060 = NULL, c061 = NULL, c062 = NULL, c063 = NULL, c064 = NULL, c065 = NULL, c066 = NULL, c067 = NULL, c068 = NULL, c069 = NULL, c070 = NULL, c071 = NULL, c072 = NULL, c073 = NULL, c074 = NULL, c075 = NULL, c076 = NULL, c077 = NULL, c078 = NULL, c079 = NULL, c080 = NULL, c081 = NULL, c082 = NULL, c083 = NULL, c084 = NULL, c085 = NULL, c086 = NULL, c087 = NULL, c088 = NULL, c089 = NULL, c090 = NULL, c091 = NULL, c092 = NULL, c093 = NULL, c094 = NULL, c095 = NULL, c096 = NULL, c097 = NULL, c098 = NULL, c099 = NULL, c100 = NULL, c101 = NULL, c102 = NULL, c103 = NULL, c104 = NULL, c105 = NULL, c106 = NULL, c107 = NULL, c108 = NULL, c109 = NULL, c110 = NULL, c111 = NULL, c112 = NULL, c113 = NULL, c114 = NULL, c115 = NULL, c116 = NULL, c117 = NULL, c118 = NULL, c119 = NULL, c120 = NULL WHERE id = 1002;
UPDATE t_wide SET id = 5001 WHERE id = 1001;
DELETE FROM t_wide WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_year
INSERT INTO t_year (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM t_year WHERE id <= 1000 ORDER BY id;
UPDATE t_year SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE t_year AS a JOIN t_year AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE t_year SET v = NULL WHERE id = 1002;
UPDATE t_year SET id = 5001 WHERE id = 1001;
DELETE FROM t_year WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- tablé_表
INSERT INTO `tablé_表` (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM `tablé_表` WHERE id <= 1000 ORDER BY id;
UPDATE `tablé_表` SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE `tablé_表` AS a JOIN `tablé_表` AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE `tablé_表` SET v = NULL WHERE id = 1002;
UPDATE `tablé_表` SET id = 5001 WHERE id = 1001;
DELETE FROM `tablé_表` WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- t_text
INSERT INTO `Corpus Odd-Db`.t_text (id, label, v) SELECT id + 1000, CONCAT('cdc: ', label), v FROM `Corpus Odd-Db`.t_text WHERE id <= 1000 ORDER BY id;
UPDATE `Corpus Odd-Db`.t_text SET label = CONCAT('upd: ', label) WHERE id = 1 OR id > 1000 AND id % 2 = 0;
UPDATE `Corpus Odd-Db`.t_text AS a JOIN `Corpus Odd-Db`.t_text AS b ON b.id = a.id - 1001 SET a.v = b.v WHERE a.id > 1000 AND a.id % 3 = 0;
UPDATE `Corpus Odd-Db`.t_text SET v = NULL WHERE id = 1002;
UPDATE `Corpus Odd-Db`.t_text SET id = 5001 WHERE id = 1001;
DELETE FROM `Corpus Odd-Db`.t_text WHERE id = 3 OR id > 1000 AND id % 7 = 0;
-- tables whose key is not called id, or that have no other column
INSERT INTO `Corpus Odd-Db`.`Odd Table` VALUES (3,'cdc','new'),(4,'cdc','to delete');
UPDATE `Corpus Odd-Db`.`Odd Table` SET `The Value` = 'it''s "set"' WHERE `Primary Key` = 2;
UPDATE `Corpus Odd-Db`.`Odd Table` SET `Primary Key` = 30 WHERE `Primary Key` = 3;
DELETE FROM `Corpus Odd-Db`.`Odd Table` WHERE `Primary Key` = 4;
INSERT INTO t_only_key VALUES (10),(11);
UPDATE t_only_key SET id = 12 WHERE id = 11;
DELETE FROM t_only_key WHERE id = -2147483648;

-- =====================================================================================
-- 2. Keys
-- =====================================================================================
USE corpus_chg;
START TRANSACTION;
UPDATE pk_change SET id = -1 WHERE id = 1;
UPDATE pk_change SET id = 1 WHERE id = 2;
UPDATE pk_change SET id = 2 WHERE id = -1;
COMMIT;
UPDATE pk_change SET id = id + 1 WHERE id >= 3 ORDER BY id DESC;          -- two rows of one event shift by one
INSERT INTO pk_change VALUES (3,'new three');
DELETE FROM pk_change WHERE id = 3;
INSERT INTO pk_change VALUES (3,'newer three');
START TRANSACTION;
DELETE FROM pk_change WHERE id = 5;
INSERT INTO pk_change VALUES (5,'delete and insert in one transaction');
UPDATE pk_change SET id = 6 WHERE id = 5;
INSERT INTO pk_change VALUES (5,'key reused in the transaction that freed it');
COMMIT;
INSERT INTO composite_pk VALUES (3,'cdc','new',10);
UPDATE composite_pk SET b = 'upd' WHERE c = 10 AND a = 1;
UPDATE composite_pk SET a = 5 WHERE c = 10 AND a = 2;
UPDATE composite_pk SET a = 20, c = 1 WHERE c = 20 AND a = 1;
DELETE FROM composite_pk WHERE c = 10 AND a = 3;
INSERT INTO only_pk VALUES (4);
UPDATE only_pk SET id = 40 WHERE id = 4;
DELETE FROM only_pk WHERE id = 1;
-- no key at all: one of several equal rows
UPDATE nopk SET b = 'dup changed' WHERE a = 1 LIMIT 1;
DELETE FROM nopk WHERE b = 'dup' LIMIT 1;
DELETE FROM nopk WHERE a IS NULL LIMIT 1;
UPDATE nopk SET a = NULL WHERE a = 3;
INSERT INTO nopk VALUES (1,'dup',1.00);
UPDATE unique_only SET b = 'upd' WHERE a = 1;
UPDATE unique_only SET a = 3 WHERE a = 2;
INSERT INTO unique_only VALUES (4,'to delete'),(5,'five');
DELETE FROM unique_only WHERE a = 4;
UPDATE unique_nullable SET b = 'null 2 upd' WHERE b = 'null 2';
DELETE FROM unique_nullable WHERE b = 'null 1';
UPDATE unique_nullable SET a = NULL WHERE a = 1;
-- keys of other types
UPDATE key_ci SET k = 'ALPHA' WHERE k = 'alpha';                           -- equal under the collation, other spelling
UPDATE key_ci SET label = 'upd' WHERE k = 'GAMMA';
DELETE FROM key_ci WHERE k = 'beta';
UPDATE key_binary SET label = 'upd' WHERE k IN ('', X'0000');
DELETE FROM key_binary WHERE k = X'00';
UPDATE key_decimal SET label = 'upd' WHERE k = 9007199254740.99301;        -- its neighbour must stay
DELETE FROM key_decimal WHERE k = 0;
UPDATE key_bigint SET label = 'upd' WHERE k IN (18446744073709551615, 9007199254740993);
DELETE FROM key_bigint WHERE k = 9223372036854775808;
UPDATE key_datetime SET label = 'upd' WHERE label IN ('zero', 'microsecond');
DELETE FROM key_datetime WHERE label = 'invalid';
UPDATE key_timestamp SET label = 'upd' WHERE k = '2024-11-03 06:30:00';
DELETE FROM key_timestamp WHERE k = '2024-11-03 05:30:00';
UPDATE key_timestamp SET label = 'upd zero' WHERE k = '0000-00-00 00:00:00';
UPDATE key_enum SET label = 'upd' WHERE k = 'b,c';
DELETE FROM key_enum WHERE k = 'z';
UPDATE key_char SET label = 'upd' WHERE k = 'a';
DELETE FROM key_char WHERE k = '';

-- =====================================================================================
-- 3. Statements
-- =====================================================================================
UPDATE multi_row SET v = v * 10 WHERE id % 2 = 0;
DELETE FROM multi_row WHERE id BETWEEN 5 AND 8;
INSERT INTO multi_row SELECT seq,'generated',seq FROM seq_101_to_110;
UPDATE multi_row SET v = v;                                                -- changes nothing: no event
UPDATE multi_row SET v = NULL WHERE id = 101;
UPDATE multi_row SET v = 7 WHERE id = 101;
DELETE FROM multi_row WHERE id = 999999;
DELETE FROM multi_row WHERE id > 100 ORDER BY id DESC LIMIT 2;
SET STATEMENT max_statement_time = 60 FOR UPDATE multi_row SET label = 'SET STATEMENT' WHERE id = 1;
START TRANSACTION;
INSERT INTO multi_row VALUES (200,'a',0);
UPDATE multi_row SET v = 1 WHERE id = 200;
DELETE FROM multi_row WHERE id = 200;
INSERT INTO multi_row VALUES (200,'b',3);
UPDATE multi_row SET v = 4 WHERE id = 200;
COMMIT;
-- a temporary table hides the real one: with binlog_format=ROW neither its rows nor its DDL may touch the real table
CREATE TEMPORARY TABLE multi_row (id INT PRIMARY KEY, other DATE);
INSERT INTO multi_row VALUES (1,'2024-01-01'),(2,NULL);
DROP TEMPORARY TABLE multi_row;
INSERT INTO upsert VALUES (1,'by key','c1',10),(4,'new','c4',4),(5,'by the unique code','c2',20) ON DUPLICATE KEY UPDATE label = VALUES(label), v = v + VALUES(v);
INSERT INTO upsert VALUES (3,'three','c3',3) ON DUPLICATE KEY UPDATE label = VALUES(label);   -- nothing changes
REPLACE INTO replaced VALUES (1,'same key','c1',1);
REPLACE INTO replaced VALUES (9,'same code, other key','c2',9);
REPLACE INTO replaced VALUES (3,'takes out three and four','c4',3);        -- two unique conflicts: two rows go, one comes
REPLACE INTO replaced VALUES (10,'no conflict','c10',10),(10,'conflict within the statement','c11',11);
INSERT IGNORE INTO ignored VALUES (1,'ignored'),(2,'two'),(2,'ignored too');
UPDATE multi_a JOIN multi_b ON multi_b.a_id = multi_a.id SET multi_a.v = multi_a.v * 10, multi_b.v = multi_b.v + 1000, multi_b.label = 'upd' WHERE multi_a.id <= 2;
DELETE multi_a, multi_b FROM multi_a JOIN multi_b ON multi_b.a_id = multi_a.id WHERE multi_a.id = 3;
DELETE b FROM multi_b AS b JOIN multi_a AS a ON b.a_id = a.id WHERE a.id = 4;
TRUNCATE TABLE truncated;
INSERT INTO truncated (label) VALUES ('id 1 again');
truncate corpus_chg.ignored;
INSERT INTO ignored VALUES (7,'after truncate');
-- rows written by a trigger are rows like any other
DELIMITER //
CREATE TRIGGER trigger_src_ai AFTER INSERT ON trigger_src FOR EACH ROW BEGIN INSERT INTO trigger_log (label) VALUES (CONCAT('trigger on ', NEW.id)); END//
CREATE PROCEDURE add_rows(IN n INT) BEGIN DECLARE i INT DEFAULT 0; WHILE i < n DO INSERT INTO trigger_src VALUES (100 + i, 'procedure'); SET i = i + 1; END WHILE; END//
DELIMITER ;
INSERT INTO trigger_src VALUES (2,'fires'),(3,'fires');
CALL add_rows(2);
DROP TRIGGER trigger_src_ai;
DROP PROCEDURE add_rows;
INSERT INTO trigger_src VALUES (4,'no longer fires');
-- statements in the log that change no table's rows
CREATE VIEW a_view AS SELECT id, label FROM multi_row;
CREATE OR REPLACE VIEW a_view AS SELECT id FROM multi_row;
DROP VIEW a_view;
CREATE INDEX an_index ON multi_row (v);
DROP INDEX an_index ON multi_row;
ANALYZE TABLE multi_row;
OPTIMIZE TABLE multi_row;
ALTER TABLE multi_row ENGINE = InnoDB;
ALTER TABLE multi_row COMMENT = 'ALTER TABLE `multi_row` DROP COLUMN v; -- only a comment';

-- =====================================================================================
-- 4. Foreign keys: InnoDB carries out cascades below the binlog. Only the parent's rows are logged.
-- =====================================================================================
DELETE FROM fk_parent WHERE id = 1;
UPDATE fk_parent SET id = 20 WHERE id = 2;
DELETE FROM fk_cascade WHERE id = 31;

-- =====================================================================================
-- 5. Transactions
-- =====================================================================================
START TRANSACTION;
INSERT INTO savepoints VALUES (10,'kept',1);
SAVEPOINT a;
INSERT INTO savepoints VALUES (11,'rolled back',2);
UPDATE savepoints SET v = 99 WHERE id = 1;
SAVEPOINT `b c`;
DELETE FROM savepoints WHERE id = 10;
ROLLBACK TO SAVEPOINT a;
INSERT INTO savepoints VALUES (11,'kept, key reused after rollback to a savepoint',3);
SAVEPOINT c;
UPDATE savepoints SET v = 4 WHERE id = 11;
RELEASE SAVEPOINT c;
COMMIT;
START TRANSACTION;
INSERT INTO aborted VALUES (2,'must not appear');
UPDATE aborted SET label = 'must not appear' WHERE id = 1;
ROLLBACK;
INSERT INTO aborted VALUES (3,'after the aborted one');
-- a table without transactions keeps its row when the transaction is rolled back
START TRANSACTION;
INSERT INTO aborted VALUES (4,'must not appear');
INSERT INTO not_transactional VALUES (2,'kept in spite of ROLLBACK');
INSERT INTO aborted VALUES (5,'must not appear');
ROLLBACK;
START TRANSACTION;
INSERT INTO not_transactional VALUES (3,'kept');
INSERT INTO aborted VALUES (6,'kept');
COMMIT;
-- 60,000 row changes in one transaction, and as many rolled back
START TRANSACTION;
INSERT INTO big_txn SELECT seq,'big',seq FROM seq_2_to_20001;
UPDATE big_txn SET v = -v WHERE id > 1;
DELETE FROM big_txn WHERE id BETWEEN 12 AND 20001;
COMMIT;
START TRANSACTION;
INSERT INTO big_txn SELECT seq,'must not appear',seq FROM seq_50001_to_70000;
DELETE FROM big_txn WHERE id < 50001;
ROLLBACK;
INSERT INTO big_txn VALUES (100,'after',0);
-- DDL inside a transaction commits what came before it
START TRANSACTION;
INSERT INTO savepoints VALUES (20,'committed by the DDL below',0);
CREATE TABLE implicit_commit (id INT PRIMARY KEY);
INSERT INTO implicit_commit VALUES (1);
ROLLBACK;

-- =====================================================================================
-- 6. DDL between rows
-- =====================================================================================
-- 6a. columns added at the end, first, after another; renamed; dropped; a name that comes back
INSERT INTO alter_columns VALUES (2,'old shape',2,'drop me','rename me');
ALTER TABLE alter_columns ADD COLUMN added INT;
INSERT INTO alter_columns VALUES (3,'after ADD COLUMN',3,'drop me','rename me',33);
ALTER TABLE alter_columns ADD COLUMN put_first VARCHAR(10) FIRST;
INSERT INTO alter_columns VALUES ('f4',4,'after ADD COLUMN FIRST',4,'drop me','rename me',44);
ALTER TABLE alter_columns ADD COLUMN put_after INT NOT NULL DEFAULT 5 AFTER label;
INSERT INTO alter_columns VALUES ('f5',5,'after ADD COLUMN AFTER',55,5,'drop me','rename me',55);
UPDATE alter_columns SET added = 11 WHERE id = 1;
ALTER TABLE alter_columns DROP COLUMN to_drop;
INSERT INTO alter_columns VALUES ('f6',6,'after DROP COLUMN',66,6,'rename me',66);
ALTER TABLE alter_columns RENAME COLUMN to_rename TO `Renamed Column`;
INSERT INTO alter_columns (id, label, `Renamed Column`) VALUES (7,'after RENAME COLUMN','renamed');
ALTER TABLE alter_columns CHANGE COLUMN `Renamed Column` `changed``name` VARCHAR(40) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'x' COMMENT 'it''s, a (comment)' AFTER id;
INSERT INTO alter_columns (id, label) VALUES (8,'after CHANGE COLUMN AFTER');
ALTER TABLE alter_columns ADD COLUMN to_drop DATE, ADD COLUMN (n1 INT, n2 DECIMAL(10,2) DEFAULT 1.5), MODIFY COLUMN v BIGINT UNSIGNED FIRST, DROP COLUMN put_first;
INSERT INTO alter_columns (id, label, v, to_drop, n1) VALUES (9,'after an ALTER of many parts',18446744073709551615,'2024-02-29',9);
DELETE FROM alter_columns WHERE id = 3;

-- 6b. columns of one type that change places or names, from another database, in odd spelling
USE corpus_types;
ALTER TABLE corpus_chg.alter_order MODIFY c VARCHAR(20) AFTER id;
INSERT INTO corpus_chg.alter_order VALUES (2,'in c','in a','in b');
alter /* comment */ table
  `corpus_chg` . `alter_order`   -- to the end of the line
  rename column a to b, rename column b to a # both at once: an exchange
;
INSERT INTO corpus_chg.alter_order VALUES (3,'in c','into b','into a');
/*!50000 ALTER TABLE corpus_chg.alter_order ADD COLUMN IF NOT EXISTS d INT FIRST */;
INSERT INTO corpus_chg.alter_order VALUES (44,4,'in c','into b','into a');
USE corpus_chg;

-- 6c. types
INSERT INTO alter_type VALUES (2,'old types',1,'1',0.01,'2024-01-01 00:00:00','two');
ALTER TABLE alter_type MODIFY v BIGINT;
INSERT INTO alter_type VALUES (3,'v is BIGINT',9007199254740993,'3',3,'2024-01-01 00:00:00','one');
ALTER TABLE alter_type MODIFY v_txt INT;
INSERT INTO alter_type VALUES (4,'v_txt is INT',4,4,4,'2024-01-01 00:00:00','one');
ALTER TABLE alter_type MODIFY v_dec DECIMAL(12,4);
INSERT INTO alter_type VALUES (5,'v_dec has four decimals',5,5,12345678.1234,'2024-01-01 00:00:00','one');
ALTER TABLE alter_type MODIFY v_dt DATETIME(6);
INSERT INTO alter_type VALUES (6,'v_dt has microseconds',6,6,6,'2024-01-01 00:00:00.000001','one');
ALTER TABLE alter_type MODIFY v_enum ENUM('one','mid','two');
INSERT INTO alter_type VALUES (7,'v_enum has a value in the middle: two is 3 now',7,7,7,'2024-01-01 00:00:00','two');
UPDATE alter_type SET label = 'upd' WHERE id = 1;
INSERT INTO alter_sign VALUES (2,'before',255,-128);
UPDATE alter_sign SET w = 1;
ALTER TABLE alter_sign MODIFY w TINYINT UNSIGNED;
INSERT INTO alter_sign VALUES (3,'w is unsigned now: the row bytes alone do not tell 255 from -1',255,255);
ALTER TABLE alter_charset CONVERT TO CHARACTER SET utf8mb4;
INSERT INTO alter_charset VALUES (2,'utf8mb4 now','é€表😀');
ALTER TABLE alter_pk DROP PRIMARY KEY, ADD PRIMARY KEY (code);
UPDATE alter_pk SET label = 'found by the new key' WHERE code = 'c1';
INSERT INTO alter_pk VALUES (1,'same id, other code','c3');
UPDATE alter_pk SET code = 'c22' WHERE code = 'c2';
DELETE FROM alter_pk WHERE code = 'c3';

-- 6d. tables renamed, exchanged, moved, made and dropped
INSERT INTO rename_old VALUES (2,'old name');
RENAME TABLE rename_old TO `rename new`;
INSERT INTO `rename new` VALUES (3,'new name');
CREATE TABLE rename_old (id INT PRIMARY KEY, other DECIMAL(4,1));
INSERT INTO rename_old VALUES (1,2.5);
ALTER TABLE rename_old RENAME TO renamed_twice;
INSERT INTO renamed_twice VALUES (2,3.5);
RENAME TABLE swap_a TO swap_tmp, swap_b TO swap_a, swap_tmp TO swap_b;     -- two tables of different shape exchange their names
INSERT INTO swap_a VALUES (2,'b','now called a');
INSERT INTO swap_b VALUES (2,'now called b',2);
RENAME TABLE to_other_db TO `Corpus Odd-Db`.`Moved Here`;
INSERT INTO `Corpus Odd-Db`.`Moved Here` VALUES (2,'in the other database');
INSERT INTO dropped_later VALUES (2,'then dropped');
DROP TABLE dropped_later;
CREATE TABLE IF NOT EXISTS created_mid (id INT PRIMARY KEY, label VARCHAR(100), v DECIMAL(10,3));
CREATE TABLE IF NOT EXISTS created_mid (id INT PRIMARY KEY, other_shape DATE);   -- exists: must be left alone
INSERT INTO created_mid VALUES (1,'table made while replication runs',1.5);
UPDATE created_mid SET v = 2 WHERE id = 1;
CREATE TABLE created_like LIKE created_mid;
INSERT INTO created_like VALUES (1,'LIKE',0.125);
CREATE TABLE created_select (PRIMARY KEY (id)) AS SELECT id, v, 'text' AS t FROM created_mid;
CREATE OR REPLACE TABLE created_like (id INT PRIMARY KEY, replaced_shape VARCHAR(10));
INSERT INTO created_like VALUES (1,'replaced');

-- 6e. partitions
INSERT INTO part VALUES (4,60,'cdc, low'),(5,260,'cdc, high');
UPDATE part SET region = 160 WHERE id = 1;                                 -- moves between partitions: one UPDATE in the log
DELETE FROM part WHERE id = 3;
INSERT INTO part_ddl VALUES (12,2,'cdc');
ALTER TABLE part_ddl TRUNCATE PARTITION two;                               -- rows go without row events
ALTER TABLE part_ddl DROP PARTITION three;
ALTER TABLE part_ddl ADD PARTITION (PARTITION four VALUES IN (4));
INSERT INTO part_ddl VALUES (4,4,'in the new partition');

-- =====================================================================================
-- 7. XA
-- =====================================================================================
XA START 'corpus-1';
INSERT INTO xa VALUES (2,'prepared, then committed');
XA END 'corpus-1';
XA PREPARE 'corpus-1';
XA COMMIT 'corpus-1';
XA START 'corpus-2','branch',7;
INSERT INTO xa VALUES (3,'committed in one phase');
XA END 'corpus-2','branch',7;
XA COMMIT 'corpus-2','branch',7 ONE PHASE;
XA START 'corpus-3';
INSERT INTO xa VALUES (4,'prepared, then rolled back: must not appear');
UPDATE xa SET label = 'must not appear' WHERE id = 1;
XA END 'corpus-3';
XA PREPARE 'corpus-3';
XA ROLLBACK 'corpus-3';
-- prepared, left by its connection, committed by another one after other transactions have committed
XA START 'corpus-4';
INSERT INTO xa VALUES (5,'prepared first, committed last');
XA END 'corpus-4';
XA PREPARE 'corpus-4';
connect
SET NAMES utf8mb4;
SET SESSION time_zone = '+00:00';
DO SLEEP(1);
INSERT INTO corpus_chg.xa VALUES (6,'committed while the other was prepared');
XA COMMIT 'corpus-4';
INSERT INTO corpus_chg.xa VALUES (7,'after');

-- last row of the run: when it has arrived, everything before it has
INSERT INTO corpus_chg.multi_row VALUES (9999,'end of mariadb-changes.sql',0);

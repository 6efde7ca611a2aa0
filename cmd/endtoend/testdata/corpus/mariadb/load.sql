-- Type fidelity corpus, MariaDB side (written for MariaDB 10.11; MySQL has no uuid, inet4, inet6, COMPRESSED or INVISIBLE of this spelling).
--
--   mariadb --default-character-set=utf8mb4 ... < load.sql                                  tables and rows
--   sed '/^-- >>> ROWS/,$d' load.sql | mariadb --default-character-set=utf8mb4 ...          tables only (for a target)
--
-- Needs a user who may create and drop databases. Running it again drops and rebuilds its own databases, nothing else.
-- Databases: corpus_types = one table per type family; corpus_chg = tables for changes.sql; `Corpus Odd-Db` = a name that needs quoting.
-- To place the tables under other names on the same server, replace corpus_ and Corpus\ Odd-Db with sed; the test does so for its target.
-- Every table of the type families has: id INT primary key, label, value column(s) v...

SET NAMES utf8mb4;
SET SESSION time_zone = '+00:00';
SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION';   -- not strict: zero dates and invalid enum values get in
SET SESSION group_concat_max_len = 4194304;
SET SESSION foreign_key_checks = 1;

DROP DATABASE IF EXISTS corpus_types;
DROP DATABASE IF EXISTS corpus_chg;
DROP DATABASE IF EXISTS `Corpus Odd-Db`;
CREATE DATABASE corpus_types CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE DATABASE corpus_chg CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE DATABASE `Corpus Odd-Db` CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;

-- =====================================================================================
-- PART 1: DDL
-- =====================================================================================
USE corpus_types;

-- numbers --------------------------------------------------------------------------------
CREATE TABLE t_tinyint (id INT PRIMARY KEY, label VARCHAR(100), v TINYINT, v_u TINYINT UNSIGNED, v_z TINYINT(3) ZEROFILL);
CREATE TABLE t_tinyint1 (id INT PRIMARY KEY, label VARCHAR(100), v TINYINT(1), v_bool BOOLEAN, v_u TINYINT(1) UNSIGNED);
CREATE TABLE t_smallint (id INT PRIMARY KEY, label VARCHAR(100), v SMALLINT, v_u SMALLINT UNSIGNED);
CREATE TABLE t_mediumint (id INT PRIMARY KEY, label VARCHAR(100), v MEDIUMINT, v_u MEDIUMINT UNSIGNED);
CREATE TABLE t_int (id INT PRIMARY KEY, label VARCHAR(100), v INT, v_u INT UNSIGNED, v_z INT(8) UNSIGNED ZEROFILL);
CREATE TABLE t_bigint (id INT PRIMARY KEY, label VARCHAR(100), v BIGINT, v_u BIGINT UNSIGNED, v_z BIGINT(20) UNSIGNED ZEROFILL);
CREATE TABLE t_bit (id INT PRIMARY KEY, label VARCHAR(100), v BIT(1), v8 BIT(8), v12 BIT(12), v64 BIT(64));
CREATE TABLE t_decimal (id INT PRIMARY KEY, label VARCHAR(100), v DECIMAL(65,30), v_0 DECIMAL(65,0), v_30 DECIMAL(30,30), v_5 DECIMAL(5,2), v_u DECIMAL(10,2) UNSIGNED, v_z DECIMAL(8,3) UNSIGNED ZEROFILL, v_d DECIMAL);
CREATE TABLE t_float (id INT PRIMARY KEY, label VARCHAR(100), v FLOAT, v_md FLOAT(7,4), v_u FLOAT UNSIGNED);
CREATE TABLE t_double (id INT PRIMARY KEY, label VARCHAR(100), v DOUBLE, v_md DOUBLE(15,3), v_u DOUBLE UNSIGNED, v_53 FLOAT(53));

-- text and bytes -------------------------------------------------------------------------
CREATE TABLE t_text (id INT PRIMARY KEY, label VARCHAR(100), v TEXT);
CREATE TABLE t_text_nul (id INT PRIMARY KEY, label VARCHAR(100), v VARCHAR(20), v_t TEXT);           -- U+0000 inside text: PostgreSQL has no place for it
CREATE TABLE t_text_sizes (id INT PRIMARY KEY, label VARCHAR(100), v_tiny TINYTEXT, v TEXT, v_medium MEDIUMTEXT, v_long LONGTEXT, v_255 VARCHAR(255), v_256 VARCHAR(256));
CREATE TABLE t_text_big (id INT PRIMARY KEY, label VARCHAR(100), v MEDIUMTEXT, v_long LONGTEXT, small INT);
CREATE TABLE t_char_latin1 (id INT PRIMARY KEY, label VARCHAR(100), v CHAR(10), v_vc VARCHAR(50), v_t TEXT, v_e ENUM('é','b'), v_s SET('é','ü')) CHARACTER SET latin1 COLLATE latin1_swedish_ci;
CREATE TABLE t_char_utf8mb3 (id INT PRIMARY KEY, label VARCHAR(100), v CHAR(10), v_vc VARCHAR(50), v_t TEXT) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci;
CREATE TABLE t_char_utf8mb4 (id INT PRIMARY KEY, label VARCHAR(100), v CHAR(10), v_vc VARCHAR(50), v_t TEXT) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE TABLE t_charsets (id INT PRIMARY KEY, label VARCHAR(100),
  v_latin1 VARCHAR(20) CHARACTER SET latin1, v_latin2 VARCHAR(20) CHARACTER SET latin2, v_cp1251 VARCHAR(20) CHARACTER SET cp1251, v_koi8r VARCHAR(20) CHARACTER SET koi8r, v_greek VARCHAR(20) CHARACTER SET greek,
  v_hebrew VARCHAR(20) CHARACTER SET hebrew, v_sjis VARCHAR(20) CHARACTER SET sjis, v_ujis VARCHAR(20) CHARACTER SET ujis, v_gbk VARCHAR(20) CHARACTER SET gbk, v_big5 VARCHAR(20) CHARACTER SET big5, v_euckr VARCHAR(20) CHARACTER SET euckr,
  v_ucs2 VARCHAR(20) CHARACTER SET ucs2, v_utf16 VARCHAR(20) CHARACTER SET utf16, v_utf16le VARCHAR(20) CHARACTER SET utf16le, v_utf32 VARCHAR(20) CHARACTER SET utf32, v_ascii VARCHAR(20) CHARACTER SET ascii, v_cp850 VARCHAR(20) CHARACTER SET cp850,
  v_c_utf16 CHAR(5) CHARACTER SET utf16, v_t_sjis TEXT CHARACTER SET sjis);
CREATE TABLE t_collations (id INT PRIMARY KEY, label VARCHAR(100), v_ci VARCHAR(20) COLLATE utf8mb4_general_ci, v_bin VARCHAR(20) COLLATE utf8mb4_bin, v_nopad VARCHAR(20) COLLATE utf8mb4_nopad_bin, v_uca VARCHAR(20) COLLATE utf8mb4_unicode_520_ci);
CREATE TABLE t_binary (id INT PRIMARY KEY, label VARCHAR(100), v BINARY(8), v_vb VARBINARY(16), v_tiny TINYBLOB, v_b BLOB, v_cb CHAR(8) CHARACTER SET binary);
CREATE TABLE t_blob_big (id INT PRIMARY KEY, label VARCHAR(100), v MEDIUMBLOB, v_long LONGBLOB, small INT);
CREATE TABLE t_compressed (id INT PRIMARY KEY, label VARCHAR(100), v VARCHAR(2000) COMPRESSED, v_t TEXT COMPRESSED, v_b BLOB COMPRESSED, v_vb VARBINARY(2000) COMPRESSED);   -- binlog types of their own

-- date and time --------------------------------------------------------------------------
CREATE TABLE t_date (id INT PRIMARY KEY, label VARCHAR(100), v DATE);
CREATE TABLE t_datetime (id INT PRIMARY KEY, label VARCHAR(100), v DATETIME(6), v_0 DATETIME, v_3 DATETIME(3));
CREATE TABLE t_timestamp (id INT PRIMARY KEY, label VARCHAR(100), v TIMESTAMP(6) NULL DEFAULT NULL, v_0 TIMESTAMP NULL DEFAULT NULL, v_3 TIMESTAMP(3) NULL DEFAULT NULL);
CREATE TABLE t_timestamp_not_null (id INT PRIMARY KEY, label VARCHAR(100), v TIMESTAMP(6) NOT NULL DEFAULT '0000-00-00 00:00:00', v_date DATE NOT NULL DEFAULT '0000-00-00');
CREATE TABLE t_time (id INT PRIMARY KEY, label VARCHAR(100), v TIME(6), v_0 TIME, v_3 TIME(3));
CREATE TABLE t_year (id INT PRIMARY KEY, label VARCHAR(100), v YEAR);

-- sets, documents, network, geometry -------------------------------------------------------
CREATE TABLE t_enum (id INT PRIMARY KEY, label VARCHAR(100), v ENUM('zeta','alpha','with space','comma,comma','it''s','say "hi"','back\\slash','NULL','1','é','表','😀'), v_nn ENUM('a','b') NOT NULL);
CREATE TABLE t_enum_empty (id INT PRIMARY KEY, label VARCHAR(100), v ENUM('a','','b'));            -- '' is a declared value here: index 2; the invalid value is index 0
CREATE TABLE t_set (id INT PRIMARY KEY, label VARCHAR(100), v SET('a','b','with space','it''s','say "hi"','back\\slash','é'),
  v_64 SET('s01','s02','s03','s04','s05','s06','s07','s08','s09','s10','s11','s12','s13','s14','s15','s16','s17','s18','s19','s20','s21','s22','s23','s24','s25','s26','s27','s28','s29','s30','s31','s32','s33','s34','s35','s36','s37','s38','s39','s40','s41','s42','s43','s44','s45','s46','s47','s48','s49','s50','s51','s52','s53','s54','s55','s56','s57','s58','s59','s60','s61','s62','s63','s64'));
CREATE TABLE t_json (id INT PRIMARY KEY, label VARCHAR(100), v JSON);                              -- LONGTEXT with a CHECK: text is kept as written
CREATE TABLE t_uuid (id INT PRIMARY KEY, label VARCHAR(100), v UUID);
CREATE TABLE t_inet (id INT PRIMARY KEY, label VARCHAR(100), v INET6, v_4 INET4);
CREATE TABLE t_geometry (id INT PRIMARY KEY, label VARCHAR(100), v GEOMETRY, v_point POINT, v_line LINESTRING, v_poly POLYGON, v_mp MULTIPOINT, v_gc GEOMETRYCOLLECTION);

-- column properties ------------------------------------------------------------------------
CREATE TABLE t_generated (id INT PRIMARY KEY, label VARCHAR(100), v INT, v_virtual INT AS (v * 2) VIRTUAL, v_stored INT AS (v * 3) STORED, v_txt VARCHAR(20), v_len INT AS (CHAR_LENGTH(v_txt)) VIRTUAL, v_last INT);   -- virtual columns between stored ones
CREATE TABLE t_auto_increment (id INT AUTO_INCREMENT PRIMARY KEY, label VARCHAR(100), v INT);
CREATE TABLE t_default (id INT PRIMARY KEY, label VARCHAR(100) DEFAULT 'default label', v INT DEFAULT 42, v_t VARCHAR(20) NOT NULL DEFAULT 'it''s', v_x INT DEFAULT (v + 1), v_d DECIMAL(6,2) DEFAULT 1.50, v_bit BIT(4) DEFAULT b'0101', v_e ENUM('a','b') DEFAULT 'b',
  v_ts TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6), v_upd TIMESTAMP(6) NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP(6));     -- a target that leaves v_upd out of an UPDATE gets its own clock in it
CREATE TABLE t_invisible (id INT PRIMARY KEY, label VARCHAR(100), v INT INVISIBLE DEFAULT 7, v_last VARCHAR(10));
CREATE TABLE t_all_null (id INT PRIMARY KEY, label VARCHAR(100), v_int INT, v_text TEXT, v_dec DECIMAL(10,2), v_dt DATETIME(6), v_ts TIMESTAMP NULL DEFAULT NULL, v_json JSON, v_bit BIT(8), v_enum ENUM('a'), v_set SET('a'), v_geo POINT, v_blob BLOB, v_year YEAR, v_time TIME, v_float FLOAT);
CREATE TABLE t_only_key (id INT PRIMARY KEY);
CREATE TABLE t_wide (id INT PRIMARY KEY, label VARCHAR(100), c001 INT, c002 DATE, c003 TINYINT(1), c004 DECIMAL(5,1), c005 INT, c006 VARCHAR(10), c007 DATE, c008 INT, c009 INT, c010 INT, c011 VARCHAR(10), c012 DATE, c013 TINYINT(1), c014 DECIMAL(5,1), c015 INT, c016 VARCHAR(10), c017 DATE, c018 TINYINT(1), c019 DECIMAL(5,1), c020 INT, c021 VARCHAR(10), c022 DATE, c023 TINYINT(1), c024 DECIMAL(5,1), c025 INT, c026 VARCHAR(10), c027 DATE, c028 TINYINT(1), c029 DECIMAL(5,1), c030 INT, c031 VARCHAR(10), c032 DATE, c033 TINYINT(1), c034 DECIMAL(5,1), c035 INT, c036 VARCHAR(10), c037 DATE, c038 TINYINT(1), c039 DECIMAL(5,1), c040 INT, c041 VARCHAR(10), c042 DATE, c043 TINYINT(1), c044 DECIMAL(5,1), c045 INT, c046 VARCHAR(10), c047 DATE, c048 TINYINT(1), c049 DECIMAL(5,1), c050 INT, c051 VARCHAR(10), c052 DATE, c053 TINYINT(1), c054 DECIMAL(5,1), c055 INT, c056 VARCHAR(10), c057 DATE, c058 TINYINT(1), c059 DECIMAL(5,1), c060 INT, c061 VARCHAR(10), c062 DATE, c063 TINYINT(1), c064 INT, c065 INT, c066 VARCHAR(10), c067 DATE, c068 TINYINT(1), c069 DECIMAL(5,1), c070 INT, c071 VARCHAR(10), c072 DATE, c073 TINYINT(1), c074 DECIMAL(5,1), c075 INT, c076 VARCHAR(10), c077 DATE, c078 TINYINT(1), c079 DECIMAL(5,1), c080 INT, c081 VARCHAR(10), c082 DATE, c083 TINYINT(1), c084 DECIMAL(5,1), c085 INT, c086 VARCHAR(10), c087 DATE, c088 TINYINT(1), c089 DECIMAL(5,1), c090 INT, c091 VARCHAR(10), c092 DATE, c093 TINYINT(1), c094 DECIMAL(5,1), c095 INT, c096 VARCHAR(10), c097 DATE, c098 TINYINT(1), c099 DECIMAL(5,1), c100 INT, c101 VARCHAR(10), c102 DATE, c103 TINYINT(1), c104 DECIMAL(5,1), c105 INT, c106 VARCHAR(10), c107 DATE, c108 TINYINT(1), c109 DECIMAL(5,1), c110 INT, c111 VARCHAR(10), c112 DATE, c113 TINYINT(1), c114 DECIMAL(5,1), c115 INT, c116 VARCHAR(10), c117 DATE, c118 TINYINT(1), c119 DECIMAL(5,1), c120 INT);

-- identifiers --------------------------------------------------------------------------------
CREATE TABLE t_columns (id INT PRIMARY KEY, label VARCHAR(100), `MixedCase` TEXT, `with space` TEXT, `select` TEXT, `key` TEXT, `back``tick` TEXT, `double"quote` TEXT, `apos'trophe` TEXT, `ünïcode` TEXT, `表` TEXT, `dot.ted` TEXT, `back\slash` TEXT, `slash/ed` TEXT, ` leading` TEXT,
  `1digit` TEXT, `$dollar` TEXT, `100%` TEXT, `a:b` TEXT, `a,b` TEXT, `a-b` TEXT, `[x]` TEXT, `{x}` TEXT, `?` TEXT, `@at` TEXT, `#hash` TEXT, `--dash` TEXT, `before` TEXT, `after` TEXT, `op` TEXT, `__deleted` TEXT, `a column name of exactly sixty-four characters, longest allowed.` TEXT);
CREATE TABLE `Mixed Table` (id INT PRIMARY KEY, label VARCHAR(100), v TEXT);
CREATE TABLE `mixed table` (id INT PRIMARY KEY, label VARCHAR(100), v TEXT);
CREATE TABLE `select` (id INT PRIMARY KEY, label VARCHAR(100), v TEXT);
CREATE TABLE `back``tick "table" 'q'` (id INT PRIMARY KEY, label VARCHAR(100), v TEXT);
CREATE TABLE `dot.ted` (id INT PRIMARY KEY, label VARCHAR(100), v TEXT);
CREATE TABLE `slash/back\ 100% $x *?` (id INT PRIMARY KEY, label VARCHAR(100), v TEXT);
CREATE TABLE `tablé_表` (id INT PRIMARY KEY, label VARCHAR(100), v TEXT);
CREATE TABLE `a table name of exactly sixty-four characters, longest allowed..` (id INT PRIMARY KEY, label VARCHAR(100), v TEXT);
CREATE TABLE `Corpus Odd-Db`.`Odd Table` (`Primary Key` INT PRIMARY KEY, label VARCHAR(100), `The Value` TEXT);
CREATE TABLE `Corpus Odd-Db`.t_text (id INT PRIMARY KEY, label VARCHAR(100), v TEXT);

-- tables for changes.sql ---------------------------------------------------------------
USE corpus_chg;
CREATE TABLE multi_row (id INT PRIMARY KEY, label VARCHAR(100), v INT);
CREATE TABLE upsert (id INT PRIMARY KEY, label VARCHAR(100), code VARCHAR(10) UNIQUE, v INT);
CREATE TABLE replaced (id INT PRIMARY KEY, label VARCHAR(100), code VARCHAR(10) UNIQUE, code2 INT UNIQUE);
CREATE TABLE ignored (id INT PRIMARY KEY, label VARCHAR(100));
CREATE TABLE multi_a (id INT PRIMARY KEY, label VARCHAR(100), v INT);
CREATE TABLE multi_b (id INT PRIMARY KEY, label VARCHAR(100), a_id INT, v INT);
CREATE TABLE truncated (id INT AUTO_INCREMENT PRIMARY KEY, label VARCHAR(100));
CREATE TABLE pk_change (id INT PRIMARY KEY, label VARCHAR(100));
CREATE TABLE composite_pk (a INT, label VARCHAR(100), b VARCHAR(10), c INT, PRIMARY KEY (c, a));
CREATE TABLE only_pk (id INT PRIMARY KEY);
CREATE TABLE nopk (a INT, b VARCHAR(20), c DECIMAL(5,2));
CREATE TABLE unique_only (a INT NOT NULL, b VARCHAR(20), UNIQUE (a));
CREATE TABLE unique_nullable (a INT, b VARCHAR(20), UNIQUE (a));
CREATE TABLE key_ci (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, label VARCHAR(100));
CREATE TABLE key_binary (k VARBINARY(8) PRIMARY KEY, label VARCHAR(100));
CREATE TABLE key_decimal (k DECIMAL(20,5) PRIMARY KEY, label VARCHAR(100));
CREATE TABLE key_bigint (k BIGINT UNSIGNED PRIMARY KEY, label VARCHAR(100));
CREATE TABLE key_datetime (k DATETIME(6) PRIMARY KEY, label VARCHAR(100));
CREATE TABLE key_timestamp (k TIMESTAMP(6) NOT NULL DEFAULT '0000-00-00 00:00:00' PRIMARY KEY, label VARCHAR(100));
CREATE TABLE key_enum (k ENUM('z','a','b,c') PRIMARY KEY, label VARCHAR(100));
CREATE TABLE key_char (k CHAR(5) PRIMARY KEY, label VARCHAR(100));
CREATE TABLE fk_parent (id INT PRIMARY KEY, label VARCHAR(100));
CREATE TABLE fk_cascade (id INT PRIMARY KEY, label VARCHAR(100), parent_id INT, FOREIGN KEY (parent_id) REFERENCES fk_parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE fk_setnull (id INT PRIMARY KEY, label VARCHAR(100), parent_id INT, FOREIGN KEY (parent_id) REFERENCES fk_parent (id) ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE savepoints (id INT PRIMARY KEY, label VARCHAR(100), v INT);
CREATE TABLE aborted (id INT PRIMARY KEY, label VARCHAR(100));
CREATE TABLE not_transactional (id INT PRIMARY KEY, label VARCHAR(100)) ENGINE = Aria;
CREATE TABLE big_txn (id INT PRIMARY KEY, label VARCHAR(100), v INT);
CREATE TABLE xa (id INT PRIMARY KEY, label VARCHAR(100));
CREATE TABLE trigger_src (id INT PRIMARY KEY, label VARCHAR(100));
CREATE TABLE trigger_log (id INT AUTO_INCREMENT PRIMARY KEY, label VARCHAR(100));
CREATE TABLE part (id INT, region INT, label VARCHAR(100), PRIMARY KEY (id, region)) PARTITION BY RANGE (region) (PARTITION low VALUES LESS THAN (100), PARTITION mid VALUES LESS THAN (200), PARTITION high VALUES LESS THAN MAXVALUE);
CREATE TABLE part_ddl (id INT, region INT, label VARCHAR(100), PRIMARY KEY (id, region)) PARTITION BY LIST (region) (PARTITION one VALUES IN (1), PARTITION two VALUES IN (2), PARTITION three VALUES IN (3));
CREATE TABLE alter_columns (id INT PRIMARY KEY, label VARCHAR(100), v INT, to_drop VARCHAR(20), to_rename VARCHAR(20));
CREATE TABLE alter_order (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), c VARCHAR(20));
CREATE TABLE alter_type (id INT PRIMARY KEY, label VARCHAR(100), v INT, v_txt VARCHAR(10), v_dec DECIMAL(6,2), v_dt DATETIME, v_enum ENUM('one','two'));
CREATE TABLE alter_sign (id INT PRIMARY KEY, label VARCHAR(100), v TINYINT UNSIGNED, w TINYINT);
CREATE TABLE alter_charset (id INT PRIMARY KEY, label VARCHAR(100), v VARCHAR(20)) CHARACTER SET latin1;
CREATE TABLE alter_pk (id INT PRIMARY KEY, label VARCHAR(100), code VARCHAR(10) NOT NULL);
CREATE TABLE rename_old (id INT PRIMARY KEY, label VARCHAR(100));
CREATE TABLE swap_a (id INT PRIMARY KEY, label VARCHAR(100), only_a INT);
CREATE TABLE swap_b (id INT PRIMARY KEY, only_b VARCHAR(20), label VARCHAR(100));
CREATE TABLE to_other_db (id INT PRIMARY KEY, label VARCHAR(100));
CREATE TABLE dropped_later (id INT PRIMARY KEY, label VARCHAR(100));

-- >>> ROWS
-- =====================================================================================
-- PART 2: rows
-- =====================================================================================
USE corpus_types;

INSERT INTO t_tinyint VALUES (1,'min',-128,0,0),(2,'max',127,255,255),(3,'zero',0,0,0),(4,'minus one; sign bit of the unsigned',-1,128,7),(5,'NULL',NULL,NULL,NULL);
INSERT INTO t_tinyint1 VALUES (1,'true',1,TRUE,1),(2,'false',0,FALSE,0),(3,'two is not a boolean',2,2,2),(4,'min and max',-128,127,255),(5,'max and min',127,-128,128),(6,'minus one',-1,-1,0),(7,'NULL',NULL,NULL,NULL);
INSERT INTO t_smallint VALUES (1,'min',-32768,0),(2,'max',32767,65535),(3,'sign bit of the unsigned',-1,32768),(4,'NULL',NULL,NULL);
INSERT INTO t_mediumint VALUES (1,'min',-8388608,0),(2,'max',8388607,16777215),(3,'sign bit of the unsigned',-1,8388608),(4,'NULL',NULL,NULL);
INSERT INTO t_int VALUES (1,'min',-2147483648,0,0),(2,'max',2147483647,4294967295,4294967295),(3,'sign bit of the unsigned',-1,2147483648,42),(4,'NULL',NULL,NULL,NULL);
INSERT INTO t_bigint VALUES (1,'min',-9223372036854775808,0,0),(2,'max',9223372036854775807,18446744073709551615,18446744073709551615),(3,'sign bit of the unsigned',-1,9223372036854775808,42),(4,'2^53+1',9007199254740993,9007199254740993,9007199254740993),(5,'NULL',NULL,NULL,NULL);
INSERT INTO t_bit VALUES (1,'zeros',b'0',b'0',b'0',b'0'),(2,'ones',b'1',b'11111111',b'111111111111',0xFFFFFFFFFFFFFFFF),(3,'asymmetric (bit order)',b'1',b'11010010',b'110100100001',0x8000000000000001),(4,'byte that is ASCII',b'1',0x41,0x141,0x4142434445464748),(5,'above int64',b'0',b'1',b'1',0x8000000000000000),(6,'NULL',NULL,NULL,NULL,NULL);
INSERT INTO t_decimal VALUES
 (1,'max of each',CONCAT(REPEAT('9',35),'.',REPEAT('9',30)),REPEAT('9',65),CONCAT('0.',REPEAT('9',30)),999.99,99999999.99,99999.999,9999999999),
 (2,'min of each',CONCAT('-',REPEAT('9',35),'.',REPEAT('9',30)),CONCAT('-',REPEAT('9',65)),CONCAT('-0.',REPEAT('9',30)),-999.99,0,0,-9999999999),
 (3,'smallest step','0.000000000000000000000000000001',1,'0.000000000000000000000000000001',0.01,0.01,0.001,1),(4,'zero keeps its scale',0,0,0,0,0,0,0),(5,'minus zero becomes zero','-0','-0','-0','-0',0,0,'-0'),
 (6,'padded with zeros',1.5,15,0.5,1.5,1.5,1.5,15),(7,'rounded on input',0,0,0,1.005,1.005,1.0005,1),(8,'digit groups of nine','123456789012345678901234567890123.123456789012345678',1234567890123456789,'0.123456789012345678',123.45,12345678.9,12345.678,1234567890),(9,'NULL',NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO t_float VALUES (1,'zero',0,0,0),(2,'minus zero becomes zero','-0','-0',0),(3,'0.1',0.1,0.1,0.1),(4,'2^24 (text protocol prints 16777200)',16777216,999.9999,16777216),(5,'max (text protocol prints 3.40282e38)','3.4028234663852886e38',-999.9999,'3.4028234663852886e38'),(6,'lowest','-3.4028234663852886e38',1.00005,0),
 (7,'smallest denormal','1.401298464324817e-45',0.0001,'1.401298464324817e-45'),(8,'smallest normal','1.1754943508222875e-38',123.45678,1),(9,'9 digits',1.23456789,1.23456789,1.23456789),(10,'one third',0.333333343,0.3333,0.333333343),(11,'NULL',NULL,NULL,NULL);
INSERT INTO t_double VALUES (1,'zero',0,0,0,0),(2,'minus zero becomes zero','-0','-0',0,'-0'),(3,'17 digits needed',0.30000000000000004,0.3,0.30000000000000004,0.30000000000000004),(4,'max',1.7976931348623157e308,999999999999.999,1.7976931348623157e308,1.7976931348623157e308),(5,'lowest',-1.7976931348623157e308,-999999999999.999,0,-1.7976931348623157e308),
 (6,'smallest denormal',5e-324,0.001,5e-324,5e-324),(7,'smallest normal',2.2250738585072014e-308,0.0005,2.2250738585072014e-308,2.2250738585072014e-308),(8,'2^53+1 rounds',9007199254740993,1.5,9007199254740993,9007199254740993),(9,'1e14',1e14,1,1e14,1e14),(10,'1e15',1e15,1,1e15,1e15),(11,'1e23',1e23,1,1e23,1e23),(12,'one ulp above 1',1.0000000000000002,1,1.0000000000000002,1.0000000000000002),(13,'NULL',NULL,NULL,NULL,NULL);

INSERT INTO t_text VALUES
 (1,'empty string',''),
 (2,'SQL NULL',NULL),
 (3,'the word NULL','NULL'),
 (4,'the word null','null'),
 (5,'one space',' '),
 (6,'leading and trailing spaces','  both  '),
 (7,'backslash N, the COPY null marker','\\N'),
 (8,'two backslashes N','\\\\N'),
 (9,'backslash dot, the COPY end marker','\\.'),
 (10,'end marker on its own line',_utf8mb4 X'66697273740a5c2e0a6c617374'),
 (11,'single quote','it''s'),
 (12,'double quote','say "hi"'),
 (13,'only a double quote','"'),
 (14,'two single quotes',''''''),
 (15,'backslash','back\\slash'),
 (16,'only a backslash','\\'),
 (17,'trailing backslash','end\\'),
 (18,'escape look-alikes','\\n \\t \\r \\0 \\x41 \\u0041 \\b'),
 (19,'newline',_utf8mb4 X'6c696e65310a6c696e6532'),
 (20,'carriage return',_utf8mb4 X'6c696e65310d6c696e6532'),
 (21,'CRLF',_utf8mb4 X'6c696e65310d0a6c696e6532'),
 (22,'only a newline',_utf8mb4 X'0a'),
 (23,'trailing newlines',_utf8mb4 X'746578740a0a'),
 (24,'tab',_utf8mb4 X'610962'),
 (25,'control characters 01-1f',_utf8mb4 X'0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f'),
 (26,'delete 7f',_utf8mb4 X'7f'),
 (27,'C1 control U+0085 next line',_utf8mb4 X'61c28562'),
 (28,'comma and CSV quoting','a,"b",''c'',d'),
 (29,'SQL injection shape','''; DROP TABLE x; --'),
 (30,'dollar quoting','$$ $tag$ $1 ${x}'),
 (31,'format directives','%s %d %n {} {0} {{x}} #{x} :name ?'),
 (32,'markup','<a href="x">&amp;</a> ]]>'),
 (33,'JSON text','{"a": [1, "\\u0041", null]}'),
 (34,'array text','{1,NULL,"a,b"}'),
 (35,'number-like','007'),
 (36,'float-like','1e5'),
 (37,'boolean-like','true'),
 (38,'date-like','2024-01-02'),
 (39,'comment-like','-- /* x */ #'),
 (40,'latin accents','àéîõü ÀÉÎÕÜ ß ø'),
 (41,'precomposed e acute U+00E9','é'),
 (42,'decomposed e + U+0301',_utf8mb4 X'65cc81'),
 (43,'stacked combining marks',_utf8mb4 X'5acd91cdabcd8361cd92cd866c'),
 (44,'emoji outside the BMP','😀🚀'),
 (45,'emoji ZWJ sequence',_utf8mb4 X'f09f91a9e2808df09f9a80'),
 (46,'emoji skin tone','👍🏽'),
 (47,'flag = two regional indicators','🇺🇳'),
 (48,'keycap',_utf8mb4 X'31efb88fe283a3'),
 (49,'right-to-left Hebrew',_utf8mb4 X'd7a9d79cd795d79d20d7a2d795d79cd79d'),
 (50,'right-to-left Arabic with marks',_utf8mb4 X'd985d98ed8b1d992d8add98ed8a8d98bd8a7'),
 (51,'mixed direction',_utf8mb4 X'61626320d7a2d791d7a8d799d7aa2031323320d8b9d8b1d8a8d98a2078797a'),
 (52,'bidi override controls',_utf8mb4 X'61e280ae62e280ac63e281a664e281a9'),
 (53,'CJK','表形文字 漢字かなカナ 한국어'),
 (54,'CJK extension B','𠮷𪚥'),
 (55,'second byte 5c in Shift_JIS','ソ表能'),
 (56,'Turkish dotted and dotless i','İıIi'),
 (57,'ligature and sharp s','ﬁ ẞ ß'),
 (58,'byte order mark first',_utf8mb4 X'efbbbf626f6d'),
 (59,'line and paragraph separator U+2028 U+2029',_utf8mb4 X'61e280a862e280a963'),
 (60,'zero-width space and joiners',_utf8mb4 X'61e2808b62e2808c63e2808d64'),
 (61,'no-break space',_utf8mb4 X'61c2a062'),
 (62,'replacement character',_utf8mb4 X'efbfbd'),
 (63,'noncharacters U+FFFE U+FFFF',_utf8mb4 X'efbfbeefbfbf'),
 (64,'last code point U+10FFFF',_utf8mb4 X'f48fbfbf'),
 (65,'private use',_utf8mb4 X'ee8080f3b08080'),
 (66,'soft hyphen',_utf8mb4 X'61c2ad62'),
 (67,'65535 bytes, the most a TEXT holds',REPEAT('0123456789abcde',4369)),
 (68,'4096 bytes (longest value dumped in full)',REPEAT('0123456789abcdef',256)),
 (69,'4097 bytes',CONCAT(REPEAT('0123456789abcdef',256),'x'));
INSERT INTO t_text_nul VALUES (1,'NUL inside',_utf8mb4 X'610062',_utf8mb4 X'610062'),(2,'only a NUL',_utf8mb4 X'00',_utf8mb4 X'00'),(3,'trailing NUL',_utf8mb4 X'6100',_utf8mb4 X'6100'),(4,'^Z and backspace',_utf8mb4 X'1a08',_utf8mb4 X'1a08');
INSERT INTO t_text_sizes VALUES (1,'full length of the short ones',REPEAT('a',255),REPEAT('b',1000),'medium','long',REPEAT('v',255),REPEAT('w',256)),(2,'empty','','','','','',''),(3,'lengths at a byte boundary',REPEAT('é',127),REPEAT('c',256),REPEAT('d',65536),REPEAT('e',65537),REPEAT('x',63),REPEAT('😀',256)),(4,'trailing spaces kept','a  ','b  ','c  ','d  ','e  ','f  '),(5,'NULL',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO t_text_big SELECT 1,'1 MB incompressible',GROUP_CONCAT(MD5(seq) ORDER BY seq SEPARATOR ''),GROUP_CONCAT(MD5(-seq) ORDER BY seq SEPARATOR ''),1 FROM seq_1_to_32768;
INSERT INTO t_text_big VALUES (2,'1 MB of one letter',REPEAT('x',1048576),'',2),(3,'1 MB of four-byte characters',REPEAT('😀',262144),NULL,3),(4,'empty','','',4),(5,'NULL',NULL,NULL,5);
INSERT INTO t_char_latin1 VALUES (1,'western letters','àéîõü','ÀÉÎÕÜ ß ø','ñ','é','é'),(2,'euro and other cp1252 characters (MySQL latin1 is cp1252)','€','€ „ “ ” … – —','€','b','é,ü'),(3,'trailing spaces: CHAR loses them, VARCHAR and TEXT keep them','a  ','a  ','a  ','é',''),(4,'bytes that cp1252 leaves undefined',X'818D8F909D',X'818D8F909D',X'818D8F909D','é','é'),(5,'all bytes 80-ff','x',X'F0F1F2FDFEFF',X'808182838485868788898A8B8C8D8E8F909192939495969798999A9B9C9D9E9FA0A1A2A3A4A5A6A7A8A9AAABACADAEAFB0B1B2B3B4B5B6B7B8B9BABBBCBDBEBFC0C1C2C3C4C5C6C7C8C9CACBCCCDCECFD0D1D2D3D4D5D6D7D8D9DADBDCDDDEDFE0E1E2E3E4E5E6E7E8E9EAEBECEDEEEFF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF','b','ü'),(6,'empty','','','',NULL,''),(7,'NULL',NULL,NULL,NULL,NULL,NULL);
INSERT INTO t_char_utf8mb3 VALUES (1,'accents','àéîõü','ÀÉÎÕÜ ß ø','ñ'),(2,'CJK, full length of CHAR(10)','表形文字漢字かなカナ','表形文字 한국어','ソ表能'),(3,'right-to-left','שלום','مرحبا','abc עברית'),(4,'last BMP characters',_utf8mb3 X'EFBFBD',_utf8mb3 X'EFBFBEEFBFBF',_utf8mb3 X'EE8080'),(5,'trailing spaces','a  ','a  ','a  '),(6,'empty','','',''),(7,'NULL',NULL,NULL,NULL);
INSERT INTO t_char_utf8mb4 VALUES (1,'emoji, full length of CHAR(10)','😀😀😀😀😀😀😀😀😀😀','👍🏽🚀','𠮷𪚥'),(2,'combining',_utf8mb4 X'65CC81',_utf8mb4 X'65CC81',_utf8mb4 X'C3A9'),(3,'trailing spaces','a  ','a  ','a  '),(4,'leading spaces','  a','  a','  a'),(5,'empty','','',''),(6,'NULL',NULL,NULL,NULL);
INSERT INTO t_charsets VALUES (1,'letters of each','é€','łžő','Привет','Привет','Καλημέρα','שלום','表ソ能','表ソ','表ソ你','表你','한국어','é表','é表😀','é表😀','é表😀','plain','éü░','é😀','表ソ能十'),(2,'ASCII with a backslash and quotes','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"','\\''"'),(3,'empty','','','','','','','','','','','','','','','','','','',''),(4,'NULL',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO t_collations VALUES (1,'lower','abc','abc','abc','abc'),(2,'upper','ABC','ABC','ABC','ABC'),(3,'trailing space','abc ','abc ','abc ','abc '),(4,'accents','ábc','ábc','ábc','ábc'),(5,'NULL',NULL,NULL,NULL,NULL);
INSERT INTO t_binary VALUES (1,'short BINARY is padded with 00',X'0102',X'0102',X'0102',X'0102',X'0102'),(2,'trailing 00 (the binlog cuts them from BINARY)',X'0100000000000000',X'01000000',X'010000',X'0100',X'0100000000000000'),(3,'only 00',X'00',X'00',X'00',X'00',X'00'),(4,'empty: BINARY becomes eight 00','','','','',''),(5,'full, high bytes',X'FFFEFDFCFBFAF9F8',X'F0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF',X'80FF',X'C080',X'FFFEFDFCFBFAF9F8'),(6,'trailing 20 is a byte, not padding',X'4120',X'4120',X'20',X'4120202020',X'4120'),(7,'quotes, backslash, NUL, newline, ^Z',X'27225C000A0D1A25',X'27225C000A0D1A25',X'27225C000A0D1A25',X'27225C000A0D1A25',X'27225C000A0D1A25'),(8,'255 and 1024 bytes',X'00',X'00',REPEAT(X'A5',255),REPEAT(X'00FF',512),X'00'),(9,'NULL',NULL,NULL,NULL,NULL,NULL);
INSERT INTO t_blob_big SELECT 1,'1 MB incompressible',UNHEX(GROUP_CONCAT(MD5(seq) ORDER BY seq SEPARATOR '')),X'01',1 FROM seq_1_to_65536;
INSERT INTO t_blob_big VALUES (2,'1 MB of 00',REPEAT(X'00',1048576),REPEAT(X'00',70000),2),(3,'empty','','',3),(4,'NULL',NULL,NULL,4);
INSERT INTO t_compressed VALUES (1,'long enough to be compressed',REPEAT('abc',500),REPEAT('é',1000),REPEAT(X'00FF',1000),REPEAT(X'01',1500)),(2,'short, stored as it is','abc','é',X'00FF',X'00'),(3,'empty','','','',''),(4,'incompressible',CONCAT(MD5(1),MD5(2),MD5(3),MD5(4),MD5(5)),CONCAT(MD5(6),MD5(7),MD5(8),MD5(9)),UNHEX(CONCAT(MD5(1),MD5(2),MD5(3),MD5(4),MD5(5),MD5(6),MD5(7),MD5(8))),X'FF'),(5,'NULL',NULL,NULL,NULL,NULL);

INSERT INTO t_date VALUES (1,'plain','2024-01-02'),(2,'zero date','0000-00-00'),(3,'zero day','2024-02-00'),(4,'zero month and day','2024-00-00'),(5,'year 0 with month and day','0000-01-01'),(6,'first','0001-01-01'),(7,'documented first','1000-01-01'),(8,'last','9999-12-31'),(9,'leap day','2024-02-29'),(10,'February 31 (ALLOW_INVALID_DATES)','2024-02-31'),(11,'epoch','1970-01-01'),(12,'before the Gregorian calendar','1582-10-10'),(13,'NULL',NULL);
INSERT INTO t_datetime VALUES (1,'microseconds','2024-01-02 03:04:05.123456','2024-01-02 03:04:05','2024-01-02 03:04:05.123'),(2,'zero','0000-00-00 00:00:00','0000-00-00 00:00:00','0000-00-00 00:00:00'),(3,'zero date with a time','0000-00-00 12:34:56.000001','0000-00-00 12:34:56','0000-00-00 12:34:56.001'),(4,'zero day','2024-02-00 00:00:00','2024-02-00 00:00:00','2024-02-00 00:00:00'),(5,'first','0001-01-01 00:00:00','0001-01-01 00:00:00','0001-01-01 00:00:00'),
 (6,'last','9999-12-31 23:59:59.999999','9999-12-31 23:59:59','9999-12-31 23:59:59.999'),(7,'fraction is cut, not rounded (no TIME_ROUND_FRACTIONAL)','2024-01-02 03:04:05.9999999','2024-01-02 03:04:05.9','2024-01-02 03:04:05.9999'),(8,'missing in America/New_York','2024-03-10 02:30:00','2024-03-10 02:30:00','2024-03-10 02:30:00'),(9,'twice in America/New_York','2024-11-03 01:30:00','2024-11-03 01:30:00','2024-11-03 01:30:00'),(10,'February 31','2024-02-31 01:02:03','2024-02-31 01:02:03','2024-02-31 01:02:03'),(11,'after 2038 and 2262','2300-01-01 00:00:00.000001','2300-01-01','2300-01-01'),(12,'NULL',NULL,NULL,NULL);
INSERT INTO t_timestamp VALUES (1,'microseconds','2024-01-02 03:04:05.123456','2024-01-02 03:04:05','2024-01-02 03:04:05.123'),(2,'zero','0000-00-00 00:00:00','0000-00-00 00:00:00','0000-00-00 00:00:00'),(3,'first','1970-01-01 00:00:01','1970-01-01 00:00:01','1970-01-01 00:00:01'),(4,'last','2038-01-19 03:14:07.999999','2038-01-19 03:14:07','2038-01-19 03:14:07.999'),(5,'New York, last second before spring forward (UTC)','2024-03-10 06:59:59','2024-03-10 06:59:59','2024-03-10 06:59:59'),
 (6,'New York, first second after spring forward (UTC)','2024-03-10 07:00:00','2024-03-10 07:00:00','2024-03-10 07:00:00'),(7,'New York, first 01:30 at fall back (UTC)','2024-11-03 05:30:00','2024-11-03 05:30:00','2024-11-03 05:30:00'),(8,'New York, second 01:30 at fall back (UTC): the same text there','2024-11-03 06:30:00','2024-11-03 06:30:00','2024-11-03 06:30:00'),(9,'one microsecond','2024-01-01 00:00:00.000001','2024-01-01 00:00:00','2024-01-01 00:00:00.001'),(10,'NULL',NULL,NULL,NULL);
INSERT INTO t_timestamp_not_null VALUES (1,'zero in NOT NULL columns','0000-00-00 00:00:00','0000-00-00'),(2,'plain','2024-01-02 03:04:05.000001','2024-01-02');
INSERT INTO t_timestamp_not_null (id,label) VALUES (3,'zero by default');
INSERT INTO t_time VALUES (1,'plain','12:34:56.123456','12:34:56','12:34:56.123'),(2,'zero','00:00:00','00:00:00','00:00:00'),(3,'24 hours','24:00:00','24:00:00','24:00:00'),(4,'longest','838:59:59.999999','838:59:59','838:59:59.999'),(5,'shortest','-838:59:59.999999','-838:59:59','-838:59:59.999'),(6,'minus one microsecond','-00:00:00.000001','-00:00:01','-00:00:00.001'),(7,'negative with a fraction','-12:34:56.5','-12:34:56','-12:34:56.5'),(8,'above 24 hours','100:00:00.000001','100:00:00','100:00:00.001'),(9,'minus one second exactly','-00:00:01','-00:00:01','-00:00:01'),(10,'clipped on input','1000:00:00','1000:00:00','-1000:00:00'),(11,'NULL',NULL,NULL,NULL);
INSERT INTO t_year VALUES (1,'first',1901),(2,'last',2155),(3,'zero',0),(4,'string zero is 2000','0'),(5,'two digits',70),(6,'plain',2024),(7,'NULL',NULL);

INSERT INTO t_enum VALUES (1,'first declared','zeta','a'),(2,'second declared','alpha','b'),(3,'space','with space','a'),(4,'comma','comma,comma','a'),(5,'apostrophe','it''s','a'),(6,'double quote','say "hi"','a'),(7,'backslash','back\\slash','a'),(8,'the word NULL','NULL','a'),(9,'value 1 (text) is not index 1','1','a'),(10,'by index 1',1,'a'),(11,'accent','é','a'),(12,'CJK','表','a'),(13,'emoji','😀','a'),(14,'invalid value: empty string, index 0','no such value','no such value'),(15,'empty string given: index 0','',''),(16,'NULL',NULL,'a');
INSERT INTO t_enum_empty VALUES (1,'plain','a'),(2,'declared empty string, index 2',''),(3,'invalid value, index 0','no such value'),(4,'by index 0',0),(5,'after the empty one','b'),(6,'NULL',NULL);
INSERT INTO t_set VALUES (1,'empty','',''),(2,'one','a','s01'),(3,'given out of order','b,a','s64,s01'),(4,'quoting','with space,it''s,say "hi",back\\slash,é','s32,s33'),(5,'all',127,18446744073709551615),(6,'last bit','é','s64'),(7,'invalid member dropped','a,none','none'),(8,'NULL',NULL,NULL);
INSERT INTO t_json VALUES (1,'SQL NULL',NULL),(2,'JSON null','null'),(3,'empty object','{}'),(4,'empty array','[]'),(5,'scalar number','1'),(6,'scalar string','"text"'),(7,'scalar true','true'),(8,'white space is kept','{ "a" :\n\t[ 1 , 2 ]  }'),(9,'duplicate keys are kept','{"a": 1, "a": 2}'),(10,'key order is kept','{"z": 1, "a": 2}'),(11,'2^53+1','{"n": 9007199254740993}'),(12,'uint64 max and 40 digits','[18446744073709551615, 1234567890123456789012345678901234567890]'),(13,'number spellings','[1.0, 1.00, 1e2, 1E+2, -0.0, 1e400]'),(14,'unicode escapes','"\\u00e9 \\ud83d\\ude00"'),(15,'short escapes','"\\"\\\\\\/\\b\\f\\n\\r\\t"'),(16,'raw unicode','{"é": "表😀"}'),(17,'nested','{"a": {"b": [[], {}, null, true]}}'),(18,'3 kB',CONCAT('["',REPEAT('x',3000),'"]'));
INSERT INTO t_uuid VALUES (1,'nil','00000000-0000-0000-0000-000000000000'),(2,'max','ffffffff-ffff-ffff-ffff-ffffffffffff'),(3,'upper-case input','A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'),(4,'version 1 shape','12345678-1234-1234-8234-123456789abc'),(5,'version 4 shape','12345678-1234-4234-8234-123456789abc'),(6,'version 7 shape','018f0000-0000-7000-8000-000000000001'),(7,'trailing 00 bytes','01000000-0000-4000-8000-000000000000'),(8,'NULL',NULL);
INSERT INTO t_inet VALUES (1,'IPv6','2001:db8::1','192.0.2.1'),(2,'zero','::','0.0.0.0'),(3,'ones','ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff','255.255.255.255'),(4,'IPv4-mapped','::ffff:192.0.2.1','192.0.2.0'),(5,'IPv4-compatible','::192.0.2.1','10.0.0.0'),(6,'trailing zero bytes','2001:db8::','1.0.0.0'),(7,'NULL',NULL,NULL);
INSERT INTO t_geometry VALUES
 (1,'plain',ST_GeomFromText('POINT(1 2)'),ST_GeomFromText('POINT(0.30000000000000004 -1.5)'),ST_GeomFromText('LINESTRING(0 0,1 1,2 0)'),ST_GeomFromText('POLYGON((0 0,0 3,3 3,3 0,0 0),(1 1,1 2,2 2,2 1,1 1))'),ST_GeomFromText('MULTIPOINT(0 0,1 1)'),ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))')),
 (2,'with SRID 4326',ST_GeomFromText('LINESTRING(0 0,1 1)',4326),ST_GeomFromText('POINT(1 2)',4326),ST_GeomFromText('LINESTRING(0 0,1 1)',4326),ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))',4326),ST_GeomFromText('MULTIPOINT(0 0)',4326),ST_GeomFromText('GEOMETRYCOLLECTION EMPTY',4326)),
 (3,'MULTIPOLYGON and MULTILINESTRING in GEOMETRY',ST_GeomFromText('MULTIPOLYGON(((0 0,0 1,1 1,0 0)),((5 5,5 6,6 6,5 5)))'),ST_GeomFromText('POINT(-1e300 5e-324)'),NULL,NULL,NULL,ST_GeomFromText('GEOMETRYCOLLECTION(MULTILINESTRING((0 0,1 1),(2 2,3 3)))')),(4,'NULL',NULL,NULL,NULL,NULL,NULL,NULL);

INSERT INTO t_generated (id,label,v,v_txt,v_last) VALUES (1,'plain',21,'abc',1),(2,'negative',-1,'é表😀',2),(3,'NULL base',NULL,NULL,3);
INSERT INTO t_auto_increment (label,v) VALUES ('first',10),('second',20);
INSERT INTO t_auto_increment VALUES (0,'id 0 (NO_AUTO_VALUE_ON_ZERO)',30),(-5,'negative id',40),(100,'explicit id',NULL);
SET SESSION timestamp = 1704164645.123456;
INSERT INTO t_default (id) VALUES (1);
INSERT INTO t_default VALUES (2,'explicit NULL where allowed',NULL,'',NULL,NULL,NULL,NULL,NULL,NULL),(3,NULL,0,'x',0,0,b'0','a','2000-01-01 00:00:00.000001','2000-01-01 00:00:00.000001');
SET SESSION timestamp = DEFAULT;
INSERT INTO t_invisible (id,label,v_last) VALUES (1,'default in the invisible column','x');
INSERT INTO t_invisible (id,label,v,v_last) VALUES (2,'given',-1,'y'),(3,'NULL',NULL,NULL);
INSERT INTO t_all_null (id,label) VALUES (1,'every value NULL'),(2,NULL);
INSERT INTO t_only_key VALUES (1),(2),(-2147483648),(2147483647);
INSERT INTO t_wide (id,label,c001,c008,c009,c120) VALUES (1,'NULL bitmap of 16 bytes',1,8,9,120),(2,'all NULL',NULL,NULL,NULL,NULL);
UPDATE t_wide SET c064 = 64, c065 = 65 WHERE id = 1;

INSERT INTO t_columns VALUES (1,'every column','v03','v04','v05','v06','v07','v08','v09','v10','v11','v12','v13','v14','v15','v16','v17','v18','v19','v20','v21','v22','v23','v24','v25','v26','v27','v28','v29','v30','v31','v32');
INSERT INTO t_columns (id,label) VALUES (2,'NULLs');
INSERT INTO `Mixed Table` VALUES (1,'row','upper');
INSERT INTO `mixed table` VALUES (1,'row','lower');
INSERT INTO `select` VALUES (1,'row','reserved');
INSERT INTO `back``tick "table" 'q'` VALUES (1,'row','quotes');
INSERT INTO `dot.ted` VALUES (1,'row','dot');
INSERT INTO `slash/back\ 100% $x *?` VALUES (1,'row','slashes');
INSERT INTO `tablé_表` VALUES (1,'row','unicode');
INSERT INTO `a table name of exactly sixty-four characters, longest allowed..` VALUES (1,'row','long');
INSERT INTO `Corpus Odd-Db`.`Odd Table` VALUES (1,'row','value'),(2,'row',NULL);
INSERT INTO `Corpus Odd-Db`.t_text VALUES (1,'same table name in another database','other database');

-- rows of the change tables at snapshot time
USE corpus_chg;
INSERT INTO multi_row SELECT seq,'row',seq FROM seq_1_to_20;
INSERT INTO upsert VALUES (1,'one','c1',1),(2,'two','c2',2),(3,'three','c3',3);
INSERT INTO replaced VALUES (1,'one','c1',1),(2,'two','c2',2),(3,'three','c3',3),(4,'four','c4',4);
INSERT INTO ignored VALUES (1,'one');
INSERT INTO multi_a VALUES (1,'a',1),(2,'a',2),(3,'a',3),(4,'a',4);
INSERT INTO multi_b VALUES (11,'b',1,11),(12,'b',1,12),(21,'b',2,21),(31,'b',3,31),(41,'b',4,41);
INSERT INTO truncated (label) VALUES ('one'),('two');
INSERT INTO pk_change VALUES (1,'one'),(2,'two'),(3,'three'),(4,'four');
INSERT INTO composite_pk VALUES (1,'row','x',10),(2,'row','y',10),(1,'row','z',20);
INSERT INTO only_pk VALUES (1),(2),(3);
INSERT INTO nopk VALUES (1,'dup',1.00),(1,'dup',1.00),(1,'dup',1.00),(2,NULL,NULL),(NULL,NULL,NULL),(NULL,NULL,NULL),(3,'',0);
INSERT INTO unique_only VALUES (1,'one'),(2,'two');
INSERT INTO unique_nullable VALUES (1,'one'),(NULL,'null 1'),(NULL,'null 2');
INSERT INTO key_ci VALUES ('Alpha','mixed'),('BETA','upper'),('gamma','lower');
INSERT INTO key_binary VALUES ('','empty'),(X'00','zero'),(X'0000','two zeros'),(X'FF','ff'),(X'5C','backslash');
INSERT INTO key_decimal VALUES (0,'zero'),(1.5,'1.50000'),(9007199254740.99300,'many digits'),(9007199254740.99301,'its neighbour');
INSERT INTO key_bigint VALUES (0,'zero'),(18446744073709551615,'max'),(9223372036854775808,'2^63'),(9007199254740993,'2^53+1'),(9007199254740992,'2^53');
INSERT INTO key_datetime VALUES ('0000-00-00 00:00:00','zero'),('2024-02-31 00:00:00','invalid'),('2024-01-01 00:00:00.000001','microsecond'),('9999-12-31 23:59:59.999999','last');
INSERT INTO key_timestamp VALUES ('0000-00-00 00:00:00','zero'),('2024-11-03 05:30:00','first 01:30 in New York'),('2024-11-03 06:30:00','second 01:30 in New York'),('2038-01-19 03:14:07.999999','last');
INSERT INTO key_enum VALUES ('z','index 1'),('a','index 2'),('b,c','index 3');
INSERT INTO key_char VALUES ('a','padded'),('abcde','full'),('','empty');
INSERT INTO fk_parent VALUES (1,'p1'),(2,'p2'),(3,'p3');
INSERT INTO fk_cascade VALUES (11,'c',1),(12,'c',1),(21,'c',2),(31,'c',3);
INSERT INTO fk_setnull VALUES (11,'s',1),(21,'s',2),(31,'s',3);
INSERT INTO savepoints VALUES (1,'before',0);
INSERT INTO aborted VALUES (1,'before');
INSERT INTO not_transactional VALUES (1,'before');
INSERT INTO big_txn VALUES (1,'before',0);
INSERT INTO xa VALUES (1,'before');
INSERT INTO trigger_src VALUES (1,'before');
INSERT INTO trigger_log (label) VALUES ('before');
INSERT INTO part VALUES (1,50,'low'),(2,150,'mid'),(3,250,'high');
INSERT INTO part_ddl VALUES (1,1,'row'),(2,2,'row'),(3,3,'row');
INSERT INTO alter_columns VALUES (1,'before',1,'drop me','rename me');
INSERT INTO alter_order VALUES (1,'in a','in b','in c');
INSERT INTO alter_type VALUES (1,'before',2147483647,'42',1234.50,'2024-01-02 03:04:05','one');
INSERT INTO alter_sign VALUES (1,'before',200,-1);
INSERT INTO alter_charset VALUES (1,'before','é€');
INSERT INTO alter_pk VALUES (1,'before','c1'),(2,'before','c2');
INSERT INTO rename_old VALUES (1,'before');
INSERT INTO swap_a VALUES (1,'born in a',1);
INSERT INTO swap_b VALUES (1,'b','born in b');
INSERT INTO to_other_db VALUES (1,'before');
INSERT INTO dropped_later VALUES (1,'before');

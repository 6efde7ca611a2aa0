-- Type fidelity corpus, PostgreSQL side.
--
--   psql -X -d CONNECTION -f load.sql                  tables and rows
--   psql -X -d CONNECTION -v ddl_only=1 -f load.sql    tables only (for a target)
--
-- Needs PostgreSQL 15 or later (numeric with negative scale), a UTF8 database, libxml, the contrib extensions hstore, citext
-- and ltree, and a role that may create extensions and replicate (a superuser is simplest).
-- Running it again drops and rebuilds its own schemas, nothing else.
--
-- Schemas: types = one table per type family; chg = tables for changes.sql;
-- the others have names that need quoting and hold the tables of the identifier family.
-- Every table of the type families has: id int primary key, label text, value column(s) v...

\set ON_ERROR_STOP on
\set QUIET on
\encoding UTF8
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
SET bytea_output = 'hex';
SET lc_monetary = 'C';
SET xmloption = 'content';
SET standard_conforming_strings = on;
SET search_path = public;

DROP SCHEMA IF EXISTS types CASCADE;
DROP SCHEMA IF EXISTS chg CASCADE;
DROP SCHEMA IF EXISTS "Odd Schema" CASCADE;
DROP SCHEMA IF EXISTS "select" CASCADE;
DROP SCHEMA IF EXISTS "schéma.表" CASCADE;

CREATE EXTENSION IF NOT EXISTS hstore SCHEMA public;
CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
CREATE EXTENSION IF NOT EXISTS ltree SCHEMA public;

CREATE SCHEMA types;
CREATE SCHEMA chg;
CREATE SCHEMA "Odd Schema";
CREATE SCHEMA "select";
CREATE SCHEMA "schéma.表";

-- =====================================================================================
-- PART 1: DDL
-- =====================================================================================

-- user-defined types -------------------------------------------------------------------
CREATE TYPE types.plain_enum AS ENUM ('zeta', 'alpha', 'mid');   -- declaration order is not alphabetical order
CREATE TYPE types.odd_enum AS ENUM (
  'plain', 'with space', 'it''s', 'say "hi"', 'comma,comma', '{brace}', 'back\slash', 'NULL', 'null', '', ' ', 'Mixed', 'mixed',
  'ünïcode', '表', '😀', 'a label of exactly sixty-three bytes, the longest PG allows it!');
CREATE TYPE "Odd Schema"."MixedCase Enum" AS ENUM ('One', 'one', 'TWO words');
CREATE DOMAIN types.d_price AS numeric(12,2) CHECK (VALUE >= 0);
CREATE DOMAIN types.d_code AS text CHECK (VALUE ~ '^[A-Z]{2}-[0-9]+$');
CREATE DOMAIN types.d_price_small AS types.d_price CHECK (VALUE < 100);      -- domain over domain
CREATE DOMAIN types.d_tags AS text[] CHECK (cardinality(VALUE) <= 5);        -- domain over array
CREATE DOMAIN "Odd Schema"."Domain" AS varchar(10);
CREATE TYPE types.pair AS (n int, t text);
CREATE TYPE types.nested AS ("Label" text, p types.pair, tags text[], at timestamptz);
CREATE TYPE types.textrange AS RANGE (SUBTYPE = text, COLLATION = "C", MULTIRANGE_TYPE_NAME = types.textmultirange);
CREATE TYPE types.floatrange AS RANGE (SUBTYPE = float8, MULTIRANGE_TYPE_NAME = types.floatmultirange);

-- numbers --------------------------------------------------------------------------------
CREATE TABLE types.t_smallint (id int PRIMARY KEY, label text, v smallint);
CREATE TABLE types.t_integer (id int PRIMARY KEY, label text, v integer);
CREATE TABLE types.t_bigint (id int PRIMARY KEY, label text, v bigint);
CREATE TABLE types.t_real (id int PRIMARY KEY, label text, v real);
CREATE TABLE types.t_double (id int PRIMARY KEY, label text, v double precision);
CREATE TABLE types.t_numeric (id int PRIMARY KEY, label text, v numeric);
CREATE TABLE types.t_numeric_ps (id int PRIMARY KEY, label text, v numeric(10,2), v_int numeric(38,0), v_frac numeric(38,18), v_wide numeric(1000,500), v_p numeric(5));
CREATE TABLE types.t_numeric_negscale (id int PRIMARY KEY, label text, v numeric(5,-2), v_small numeric(3,5));
CREATE TABLE types.t_money (id int PRIMARY KEY, label text, v money);
CREATE TABLE types.t_boolean (id int PRIMARY KEY, label text, v boolean);

-- text and bytes -------------------------------------------------------------------------
CREATE TABLE types.t_char (id int PRIMARY KEY, label text, v char(10), v1 char(1), vb bpchar);
CREATE TABLE types.t_varchar (id int PRIMARY KEY, label text, v varchar(20), v_any varchar);
CREATE TABLE types.t_text (id int PRIMARY KEY, label text, v text);
CREATE TABLE types.t_text_big (id int PRIMARY KEY, label text, v text, small int);
ALTER TABLE types.t_text_big ALTER COLUMN v SET STORAGE EXTERNAL;  -- out of line, never compressed
CREATE TABLE types.t_bytea (id int PRIMARY KEY, label text, v bytea);
CREATE TABLE types.t_bytea_big (id int PRIMARY KEY, label text, v bytea, small int);
CREATE TABLE types.t_citext (id int PRIMARY KEY, label text, v public.citext);
CREATE TABLE types.t_name (id int PRIMARY KEY, label text, v name, v_char "char");

-- date and time --------------------------------------------------------------------------
CREATE TABLE types.t_date (id int PRIMARY KEY, label text, v date);
CREATE TABLE types.t_time (id int PRIMARY KEY, label text, v time, v0 time(0), v3 time(3));
CREATE TABLE types.t_timetz (id int PRIMARY KEY, label text, v timetz, v3 timetz(3));
CREATE TABLE types.t_timestamp (id int PRIMARY KEY, label text, v timestamp, v0 timestamp(0), v3 timestamp(3));
CREATE TABLE types.t_timestamptz (id int PRIMARY KEY, label text, v timestamptz, v0 timestamptz(0), v3 timestamptz(3));
CREATE TABLE types.t_interval (id int PRIMARY KEY, label text, v interval);
CREATE TABLE types.t_interval_fields (id int PRIMARY KEY, label text, v interval year to month, v_ds interval day to second(3), v_0 interval(0));

-- uuid, documents ------------------------------------------------------------------------
CREATE TABLE types.t_uuid (id int PRIMARY KEY, label text, v uuid);
CREATE TABLE types.t_json (id int PRIMARY KEY, label text, v json);
CREATE TABLE types.t_jsonb (id int PRIMARY KEY, label text, v jsonb);
CREATE TABLE types.t_jsonpath (id int PRIMARY KEY, label text, v jsonpath);
CREATE TABLE types.t_xml (id int PRIMARY KEY, label text, v xml);

-- bits, network, geometry ----------------------------------------------------------------
CREATE TABLE types.t_bit (id int PRIMARY KEY, label text, v bit(1), v8 bit(8), v65 bit(65));
CREATE TABLE types.t_varbit (id int PRIMARY KEY, label text, v bit varying, v5 bit varying(5));
CREATE TABLE types.t_inet (id int PRIMARY KEY, label text, v inet);
CREATE TABLE types.t_cidr (id int PRIMARY KEY, label text, v cidr);
CREATE TABLE types.t_macaddr (id int PRIMARY KEY, label text, v macaddr, v8 macaddr8);
CREATE TABLE types.t_point (id int PRIMARY KEY, label text, v point);
CREATE TABLE types.t_line (id int PRIMARY KEY, label text, v line);
CREATE TABLE types.t_lseg (id int PRIMARY KEY, label text, v lseg);
CREATE TABLE types.t_box (id int PRIMARY KEY, label text, v box);
CREATE TABLE types.t_path (id int PRIMARY KEY, label text, v path);
CREATE TABLE types.t_polygon (id int PRIMARY KEY, label text, v polygon);
CREATE TABLE types.t_circle (id int PRIMARY KEY, label text, v circle);

-- ranges ---------------------------------------------------------------------------------
CREATE TABLE types.t_int4range (id int PRIMARY KEY, label text, v int4range);
CREATE TABLE types.t_int8range (id int PRIMARY KEY, label text, v int8range);
CREATE TABLE types.t_numrange (id int PRIMARY KEY, label text, v numrange);
CREATE TABLE types.t_tsrange (id int PRIMARY KEY, label text, v tsrange);
CREATE TABLE types.t_tstzrange (id int PRIMARY KEY, label text, v tstzrange);
CREATE TABLE types.t_daterange (id int PRIMARY KEY, label text, v daterange);
CREATE TABLE types.t_customrange (id int PRIMARY KEY, label text, v types.textrange, v_f types.floatrange);
CREATE TABLE types.t_multirange (id int PRIMARY KEY, label text, v int4multirange, v_n nummultirange, v_tz tstzmultirange, v_d datemultirange, v_t types.textmultirange);

-- arrays ---------------------------------------------------------------------------------
CREATE TABLE types.t_array_int (id int PRIMARY KEY, label text, v int[], v2 smallint[], v8 bigint[]);
CREATE TABLE types.t_array_text (id int PRIMARY KEY, label text, v text[]);
CREATE TABLE types.t_array_char (id int PRIMARY KEY, label text, v char(3)[], v_vc varchar(5)[]);
CREATE TABLE types.t_array_numeric (id int PRIMARY KEY, label text, v numeric[], v_f float8[], v_m money[]);
CREATE TABLE types.t_array_bool (id int PRIMARY KEY, label text, v bool[]);
CREATE TABLE types.t_array_time (id int PRIMARY KEY, label text, v timestamptz[], v_ts timestamp[], v_d date[], v_t time[], v_i interval[]);
CREATE TABLE types.t_array_uuid (id int PRIMARY KEY, label text, v uuid[]);
CREATE TABLE types.t_array_json (id int PRIMARY KEY, label text, v jsonb[], v_j json[]);
CREATE TABLE types.t_array_bytea (id int PRIMARY KEY, label text, v bytea[]);
CREATE TABLE types.t_array_enum (id int PRIMARY KEY, label text, v types.odd_enum[], v_mc "Odd Schema"."MixedCase Enum"[]);
CREATE TABLE types.t_array_geo (id int PRIMARY KEY, label text, v box[], v_p point[]);   -- box[] is delimited by ';', not ','
CREATE TABLE types.t_array_other (id int PRIMARY KEY, label text, v inet[], v_r int4range[], v_c types.pair[], v_h public.hstore[], v_dom types.d_price[], v_bit bit(3)[]);

-- user-defined types in columns ------------------------------------------------------------
CREATE TABLE types.t_enum (id int PRIMARY KEY, label text, v types.odd_enum, v_plain types.plain_enum, v_mc "Odd Schema"."MixedCase Enum");
CREATE TABLE types.t_domain (id int PRIMARY KEY, label text, v types.d_price, v_code types.d_code, v_small types.d_price_small, v_tags types.d_tags, v_q "Odd Schema"."Domain");
CREATE TABLE types.t_composite (id int PRIMARY KEY, label text, v types.pair, v_nested types.nested);

-- extensions, search, system types ---------------------------------------------------------
CREATE TABLE types.t_hstore (id int PRIMARY KEY, label text, v public.hstore);
CREATE TABLE types.t_ltree (id int PRIMARY KEY, label text, v public.ltree, v_q public.lquery);
CREATE TABLE types.t_tsvector (id int PRIMARY KEY, label text, v tsvector);
CREATE TABLE types.t_tsquery (id int PRIMARY KEY, label text, v tsquery);
CREATE TABLE types.t_oid (id int PRIMARY KEY, label text, v oid, v_class regclass, v_type regtype, v_proc regprocedure, v_ns regnamespace, v_role regrole);
CREATE TABLE types.t_xid (id int PRIMARY KEY, label text, v xid, v8 xid8, v_cid cid, v_tid tid);
CREATE TABLE types.t_pg_lsn (id int PRIMARY KEY, label text, v pg_lsn);
CREATE TABLE types.t_snapshot (id int PRIMARY KEY, label text, v txid_snapshot, v_pg pg_snapshot);
CREATE TABLE types.t_vector (id int PRIMARY KEY, label text, v int2vector, v_oid oidvector);

-- column properties ------------------------------------------------------------------------
CREATE TABLE types.t_generated (id int PRIMARY KEY, label text, v int, v_gen int GENERATED ALWAYS AS (v * 2) STORED, v_txt text, v_gen_txt text GENERATED ALWAYS AS (repeat(v_txt, 2)) STORED);
CREATE TABLE types.t_identity_always (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, label text, v int);
CREATE TABLE types.t_identity_default (id int PRIMARY KEY, label text, v int GENERATED BY DEFAULT AS IDENTITY, v_serial bigserial);
CREATE TABLE types.t_default (id int PRIMARY KEY, label text DEFAULT 'default label', v int DEFAULT 42, v_t text NOT NULL DEFAULT 'it''s', v_n numeric(6,2) DEFAULT 1.50, v_ts timestamptz DEFAULT '2024-01-02 03:04:05+00', v_j jsonb DEFAULT '{"a": [1, null]}', v_arr text[] DEFAULT '{}', v_e types.plain_enum DEFAULT 'alpha');
CREATE TABLE types.t_not_null (id int PRIMARY KEY, label text NOT NULL, v text NOT NULL, v_n int NOT NULL);
CREATE TABLE types.t_dropped_column (id int PRIMARY KEY, gone_first text, label text, gone_mid numeric(9,3), v int, gone_last bytea);
ALTER TABLE types.t_dropped_column DROP COLUMN gone_first, DROP COLUMN gone_mid, DROP COLUMN gone_last;  -- leaves holes in pg_attribute.attnum
ALTER TABLE types.t_dropped_column ADD COLUMN v_added text;
CREATE TABLE types.t_all_null (id int PRIMARY KEY, label text, v_int int, v_text text, v_num numeric, v_ts timestamptz, v_json jsonb, v_arr int[], v_comp types.pair, v_range int4range, v_bytea bytea, v_bool bool);
CREATE TABLE types.t_only_key (id int PRIMARY KEY);
CREATE TABLE types.t_wide (id int PRIMARY KEY, label text);
DO $$ BEGIN FOR i IN 1..120 LOOP
  EXECUTE format('ALTER TABLE types.t_wide ADD COLUMN %I %s', 'c' || i, (ARRAY['int','text','numeric','bool','timestamptz'])[1 + i % 5]);
END LOOP; END $$;

-- identifiers --------------------------------------------------------------------------------
CREATE TABLE types.t_columns (
  id int PRIMARY KEY, label text, "MixedCase" text, "mixedcase" text, "with space" text, "select" text, "user" text, "quote""d" text, "apos'trophe" text,
  "ünïcode" text, "表" text, "😀" text, "dot.ted" text, "back\slash" text, "slash/ed" text, " leading" text, "trailing " text, "1digit" text, "$dollar" text,
  "100%" text, "a:b" text, "a,b" text, "a-b" text, "[x]" text, "{x}" text, "?" text, "ctid_" text, "before" text, "after" text, "op" text, "__deleted" text,
  "a column name of exactly sixty-three bytes, longest PG allows x" text);
CREATE TABLE types."Mixed Table" (id int PRIMARY KEY, label text, v text);
CREATE TABLE types."mixed table" (id int PRIMARY KEY, label text, v text);
CREATE TABLE types."select" (id int PRIMARY KEY, label text, v text);
CREATE TABLE types."quote""d 'table'" (id int PRIMARY KEY, label text, v text);
CREATE TABLE types."dot.ted" (id int PRIMARY KEY, label text, v text);
CREATE TABLE types."slash/back\ 100% $x *?" (id int PRIMARY KEY, label text, v text);
CREATE TABLE types."tablé_表_😀" (id int PRIMARY KEY, label text, v text);
CREATE TABLE types."a table name of exactly sixty-three bytes, longest PG allows xx" (id int PRIMARY KEY, label text, v text);
CREATE TABLE "Odd Schema"."Odd Table" ("Primary Key" int PRIMARY KEY, label text, "The Value" text);
CREATE TABLE "Odd Schema".t_text (id int PRIMARY KEY, label text, v text);   -- same table name as types.t_text
CREATE TABLE "select"."from" ("where" int PRIMARY KEY, label text, "group" text, "order" int);
CREATE TABLE "schéma.表"."täble.表" ("ключ" int PRIMARY KEY, label text, "значение" text);

-- tables for changes.sql ------------------------------------------------------------
CREATE TABLE chg.toast_default (id int PRIMARY KEY, label text, n int, big text, big_b bytea, k text);
CREATE TABLE chg.toast_full (id int PRIMARY KEY, label text, n int, big text, big_b bytea, k text);
CREATE TABLE chg.toast_index (id int PRIMARY KEY, label text, n int, big text, big_b bytea, k text NOT NULL);
CREATE UNIQUE INDEX toast_index_k ON chg.toast_index (k);
CREATE TABLE chg.toast_nothing (id int PRIMARY KEY, label text, n int, big text, big_b bytea, k text);
ALTER TABLE chg.toast_default ALTER COLUMN big SET STORAGE EXTERNAL, ALTER COLUMN big_b SET STORAGE EXTERNAL;
ALTER TABLE chg.toast_full    ALTER COLUMN big SET STORAGE EXTERNAL, ALTER COLUMN big_b SET STORAGE EXTERNAL;
ALTER TABLE chg.toast_index   ALTER COLUMN big SET STORAGE EXTERNAL, ALTER COLUMN big_b SET STORAGE EXTERNAL;
ALTER TABLE chg.toast_nothing ALTER COLUMN big SET STORAGE EXTERNAL, ALTER COLUMN big_b SET STORAGE EXTERNAL;
ALTER TABLE chg.toast_full REPLICA IDENTITY FULL;
ALTER TABLE chg.toast_index REPLICA IDENTITY USING INDEX toast_index_k;
ALTER TABLE chg.toast_nothing REPLICA IDENTITY NOTHING;
CREATE TABLE chg.toast_types (id int PRIMARY KEY, label text, n int, j jsonb, a int[], h public.hstore, x xml, num numeric);  -- out-of-line values of other types

CREATE TABLE chg.nopk_full (a int, b text, c numeric);
ALTER TABLE chg.nopk_full REPLICA IDENTITY FULL;
CREATE TABLE chg.nopk_full_equal (b text, c numeric, d float8);
ALTER TABLE chg.nopk_full_equal REPLICA IDENTITY FULL;
CREATE TABLE chg.nopk_insert_only (a int, b text);
CREATE TABLE chg.composite_pk (a int, label text, b text, c int, PRIMARY KEY (c, a));
CREATE TABLE chg.only_pk (id int PRIMARY KEY);
CREATE TABLE chg.pk_swap (id int PRIMARY KEY, label text);
CREATE TABLE chg.key_text (k text PRIMARY KEY, label text);
CREATE TABLE chg.key_char (k char(5) PRIMARY KEY, label text);
CREATE TABLE chg.key_citext (k public.citext PRIMARY KEY, label text);
CREATE TABLE chg.key_uuid (k uuid PRIMARY KEY, label text);
CREATE TABLE chg.key_numeric (k numeric PRIMARY KEY, label text);
CREATE TABLE chg.key_double (k float8 PRIMARY KEY, label text);
CREATE TABLE chg.key_bytea (k bytea PRIMARY KEY, label text);
CREATE TABLE chg.key_timestamptz (k timestamptz PRIMARY KEY, label text);
CREATE TABLE chg.key_enum (k types.odd_enum PRIMARY KEY, label text);
CREATE TABLE chg.key_array (k int[] PRIMARY KEY, label text);

CREATE TABLE chg.multi_row (id int PRIMARY KEY, label text, v int);
CREATE TABLE chg.upsert (id int PRIMARY KEY, label text, v int);
CREATE TABLE chg.copied (id int PRIMARY KEY, label text, v text);
CREATE TABLE chg.copied_csv (id int PRIMARY KEY, label text, v text);
CREATE TABLE chg.savepoints (id int PRIMARY KEY, label text, v int);
CREATE TABLE chg.aborted (id int PRIMARY KEY, label text, v text);
CREATE TABLE chg.interleaved (id int PRIMARY KEY, label text, v int);
CREATE TABLE chg.two_phase (id int PRIMARY KEY, label text);
CREATE TABLE chg.big_txn (id int PRIMARY KEY, label text, v int);
CREATE TABLE chg.trunc_a (id int PRIMARY KEY, label text);
CREATE TABLE chg.trunc_b (id int PRIMARY KEY, label text, a_id int REFERENCES chg.trunc_a);
CREATE TABLE chg.trunc_c (id int PRIMARY KEY, label text);
CREATE TABLE chg.trunc_d (id int PRIMARY KEY, label text);
CREATE TABLE chg.trunc_identity (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, label text);
CREATE TABLE chg.fk_parent (id int PRIMARY KEY, label text);
CREATE TABLE chg.fk_cascade (id int PRIMARY KEY, label text, parent_id int REFERENCES chg.fk_parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE chg.fk_setnull (id int PRIMARY KEY, label text, parent_id int REFERENCES chg.fk_parent ON DELETE SET NULL ON UPDATE CASCADE);

CREATE TABLE chg.part (region text NOT NULL, id int NOT NULL, label text, v int, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE chg.part_north PARTITION OF chg.part FOR VALUES IN ('north');
CREATE TABLE chg.part_south (v int, label text, id int NOT NULL, region text NOT NULL);   -- its columns in another order than the root's
ALTER TABLE chg.part ATTACH PARTITION chg.part_south FOR VALUES IN ('south');
CREATE TABLE chg.part_east PARTITION OF chg.part FOR VALUES IN ('east') PARTITION BY RANGE (id);
CREATE TABLE chg.part_east_low PARTITION OF chg.part_east FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE chg.part_east_high PARTITION OF chg.part_east FOR VALUES FROM (100) TO (MAXVALUE);
CREATE TABLE chg.part_other PARTITION OF chg.part DEFAULT;
CREATE TABLE chg.part_trunc (id int PRIMARY KEY, label text) PARTITION BY HASH (id);
CREATE TABLE chg.part_trunc_0 PARTITION OF chg.part_trunc FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE chg.part_trunc_1 PARTITION OF chg.part_trunc FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE chg.inherit_parent (id int PRIMARY KEY, label text);
CREATE TABLE chg.inherit_child (id int PRIMARY KEY, extra text) INHERITS (chg.inherit_parent);

CREATE TYPE chg.evolving AS ENUM ('old one', 'old two');
CREATE TABLE chg.alter_columns (id int PRIMARY KEY, label text, v int, to_drop text, to_rename text);
CREATE TABLE chg.alter_type (id int PRIMARY KEY, label text, v int, v_txt text, v_len varchar(5), v_num numeric(6,2), v_ts timestamp);
CREATE TABLE chg.alter_default (id int PRIMARY KEY, label text);
CREATE TABLE chg.alter_same_txn (id int PRIMARY KEY, label text);
CREATE TABLE chg.alter_pk (id int PRIMARY KEY, label text, code text NOT NULL);
CREATE TABLE chg.alter_enum (id int PRIMARY KEY, label text, v chg.evolving);
CREATE TABLE chg.alter_swap (id int PRIMARY KEY, label text, a text, b text);
CREATE TABLE chg.rename_table_old (id int PRIMARY KEY, label text);
CREATE TABLE chg.move_schema (id int PRIMARY KEY, label text);
CREATE TABLE chg.dropped_later (id int PRIMARY KEY, label text);
CREATE TABLE chg.rewritten (id int PRIMARY KEY, label text, v text);

\if :{?ddl_only}
  \quit
\endif

-- =====================================================================================
-- PART 2: rows
-- =====================================================================================

INSERT INTO types.t_smallint VALUES
 (1,'min',-32768),(2,'max',32767),(3,'zero',0),(4,'minus one',-1),(5,'NULL',NULL);
INSERT INTO types.t_integer VALUES
 (1,'min',-2147483648),(2,'max',2147483647),(3,'zero',0),(4,'minus one',-1),(5,'NULL',NULL);
INSERT INTO types.t_bigint VALUES
 (1,'min',-9223372036854775808),(2,'max',9223372036854775807),(3,'zero',0),(4,'2^53 (last exact integer of a double)',9007199254740992),
 (5,'2^53+1 (a double cannot hold it)',9007199254740993),(6,'-(2^53+1)',-9007199254740993),(7,'above int4',2147483648),(8,'NULL',NULL);
INSERT INTO types.t_real VALUES
 (1,'zero',0),(2,'negative zero','-0'),(3,'NaN','NaN'),(4,'Infinity','Infinity'),(5,'-Infinity','-Infinity'),(6,'smallest denormal','1e-45'),
 (7,'negative smallest denormal','-1e-45'),(8,'largest denormal','1.1754942e-38'),(9,'smallest normal','1.1754944e-38'),(10,'max','3.4028235e+38'),
 (11,'lowest','-3.4028235e+38'),(12,'0.1','0.1'),(13,'one third','0.33333334'),(14,'2^24+1 rounds to 2^24','16777217'),(15,'9 digits','1.23456789'),
 (16,'exponent boundary 1e6','1e6'),(17,'1e-5','1e-5'),(18,'NULL',NULL);
INSERT INTO types.t_double VALUES
 (1,'zero',0),(2,'negative zero','-0'),(3,'NaN','NaN'),(4,'Infinity','Infinity'),(5,'-Infinity','-Infinity'),(6,'smallest denormal','5e-324'),
 (7,'negative smallest denormal','-5e-324'),(8,'largest denormal','2.225073858507201e-308'),(9,'smallest normal','2.2250738585072014e-308'),
 (10,'max','1.7976931348623157e+308'),(11,'lowest','-1.7976931348623157e+308'),(12,'0.1','0.1'),(13,'17 digits needed','0.30000000000000004'),
 (14,'17 digits needed, large','12345678901234568'),(15,'2^53+1 rounds','9007199254740993'),(16,'one ulp above 1','1.0000000000000002'),
 (17,'1e14 prints plain','1e14'),(18,'1e15 prints with an exponent','1e15'),(19,'1e-4','0.0001'),(20,'1e-5','0.00001'),(21,'pi','3.141592653589793'),
 (22,'1e22','1e22'),(23,'1e23 prints 9.999999999999999e+22 (most other printers say 1e+23)','1e23'),(24,'5e-5','0.00005'),(25,'NULL',NULL);
INSERT INTO types.t_numeric VALUES
 (1,'zero','0'),(2,'zero with scale','0.00'),(3,'negative zero becomes zero','-0.0'),(4,'one','1'),(5,'trailing zero 1.0','1.0'),(6,'trailing zeros 1.5000','1.5000'),
 (7,'hundred','100'),(8,'1e2 without exponent','1e2'),(9,'NaN','NaN'),(10,'Infinity','Infinity'),(11,'-Infinity','-Infinity'),
 (12,'300 nines',repeat('9',300)::numeric),(13,'300 digits after the point',('0.'||repeat('0123456789',30))::numeric),
 (14,'200 + 200 digits, negative',('-'||repeat('7',200)||'.'||repeat('3',200))::numeric),(15,'131072 digits before the point (the limit)',repeat('9',131072)::numeric),
 (16,'16383 digits after the point (the limit)',('0.'||repeat('1',16383))::numeric),(17,'1e-16383','1e-16383'),(18,'2^63','9223372036854775808'),(19,'2^64','18446744073709551616'),
 (20,'2^128','340282366920938463463374607431768211456'),(21,'0.1','0.1'),(22,'38 digits','99999999999999999999999999999999999999'),
 (23,'groups of four: 10000','10000'),(24,'groups of four: 0.0001','0.0001'),(25,'groups of four: 1.00010000','1.00010000'),
 (26,'zero with 400 decimals',('0.'||repeat('0',400))::numeric),(27,'1e400','1e400'),(28,'-1e-400','-1e-400'),(29,'NULL',NULL);
INSERT INTO types.t_numeric_ps VALUES
 (1,'max of each',99999999.99,'99999999999999999999999999999999999999','99999999999999999999.999999999999999999',(repeat('9',500)||'.'||repeat('9',500))::numeric,99999),
 (2,'min of each',-99999999.99,'-99999999999999999999999999999999999999','-99999999999999999999.999999999999999999',('-'||repeat('9',500)||'.'||repeat('9',500))::numeric,-99999),
 (3,'zeros keep their scale',0,0,0,0,0),(4,'smallest step',0.01,1,'0.000000000000000001',('0.'||repeat('0',499)||'1')::numeric,1),
 (5,'NaN fits any precision','NaN','NaN','NaN','NaN','NaN'),(6,'padded with zeros',1.5,15,1.5,1.5,15),(7,'rounded on input, half away from zero',0.005,0.5,'0.0000000000000000005',1,0.5),
 (8,'rounded on input, negative',-0.005,-0.5,'-0.0000000000000000005',-1,-0.5),(9,'NULL',NULL,NULL,NULL,NULL,NULL);
INSERT INTO types.t_numeric_negscale VALUES
 (1,'max',9999900,0.00999),(2,'rounded to hundreds',12345,0.00123),(3,'small becomes 0',49,0.000004),(4,'half rounds away',50,0.000005),(5,'negative',-9999900,-0.00999),(6,'NaN','NaN','NaN'),(7,'NULL',NULL,NULL);
INSERT INTO types.t_money VALUES
 (1,'zero','0'),(2,'one cent','0.01'),(3,'negative','-1234.56'),(4,'thousands separator','1234567.89'),(5,'max','92233720368547758.07'),(6,'min','-92233720368547758.08'),(7,'NULL',NULL);
INSERT INTO types.t_boolean VALUES (1,'true',true),(2,'false',false),(3,'NULL',NULL);

INSERT INTO types.t_char VALUES
 (1,'shorter than n','abc','a','abc'),(2,'trailing spaces (kept by bpchar output, padded to n)','abc   ','a','abc   '),(3,'empty','','',''),(4,'only spaces','    ',' ','    '),
 (5,'exactly n','exactly10c','x','exactly10c'),(6,'leading spaces','   abc','b','   abc'),(7,'multi-byte: n counts characters','ünï😀','表','ünï😀'),
 (8,'ten emoji','😀😀😀😀😀😀😀😀😀😀','😀','😀'),(9,'quote and backslash','''"\','''','''"\'),(10,'newline inside',E'a\nb',E'\n',E'a\nb'),(11,'NULL',NULL,NULL,NULL);
INSERT INTO types.t_varchar VALUES
 (1,'empty','',''),(2,'trailing spaces are significant','abc   ','abc   '),(3,'full length','12345678901234567890','12345678901234567890'),(4,'20 four-byte characters',repeat('😀',20),repeat('😀',20)),
 (5,'over-long trailing spaces cut on explicit cast',('x'||repeat(' ',30))::varchar(20),'x'),(6,'NULL',NULL,NULL);
INSERT INTO types.t_text VALUES
 (1,'empty string',''),(2,'SQL NULL',NULL),(3,'the word NULL','NULL'),(4,'the word null','null'),(5,'one space',' '),(6,'leading and trailing spaces','  both  '),
 (7,'backslash N, the COPY null marker','\N'),(8,'two backslashes N','\\N'),(9,'backslash dot, the COPY end marker','\.'),(10,'end marker on its own line',E'first\n\\.\nlast'),
 (11,'single quote','it''s'),(12,'double quote','say "hi"'),(13,'only a double quote','"'),(14,'two single quotes',''''''),(15,'backslash','back\slash'),(16,'only a backslash','\'),(17,'trailing backslash','end\'),
 (18,'escape look-alikes','\n \t \r \0 \x41 \u0041 \b'),(19,'newline',E'line1\nline2'),(20,'carriage return',E'line1\rline2'),(21,'CRLF',E'line1\r\nline2'),(22,'only a newline',E'\n'),(23,'trailing newlines',E'text\n\n'),
 (24,'tab',E'a\tb'),(25,'control characters 01-1f',E'\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f'),
 (26,'delete 7f',E'\x7f'),(27,'C1 control U+0085 next line',E'a\u0085b'),(28,'comma and CSV quoting','a,"b",''c'',d'),(29,'SQL injection shape','''; DROP TABLE x; --'),(30,'dollar quoting','$$ $tag$ $1 ${x}'),
 (31,'format directives','%s %d %n {} {0} {{x}} #{x} :name ?'),(32,'markup','<a href="x">&amp;</a> ]]>'),(33,'JSON text','{"a": [1, "\u0041", null]}'),(34,'array text','{1,NULL,"a,b"}'),
 (35,'number-like','007'),(36,'float-like','1e5'),(37,'boolean-like','true'),(38,'date-like','2024-01-02'),(39,'comment-like','-- /* x */ #'),
 (40,'latin accents','àéîõü ÀÉÎÕÜ ß ø'),(41,'precomposed e acute U+00E9',U&'\00E9'),(42,'decomposed e + U+0301',U&'e\0301'),(43,'stacked combining marks',U&'Z\0351\036B\0343a\0352\0346l'),
 (44,'emoji outside the BMP','😀🚀'),(45,'emoji ZWJ sequence',U&'\+01F469\200D\+01F680'),(46,'emoji skin tone',U&'\+01F44D\+01F3FD'),(47,'flag = two regional indicators',U&'\+01F1FA\+01F1F3'),(48,'keycap',U&'1\FE0F\20E3'),
 (49,'right-to-left Hebrew','שלום עולם'),(50,'right-to-left Arabic with marks','مَرْحَبًا'),(51,'mixed direction','abc עברית 123 عربي xyz'),(52,'bidi override controls',U&'a\202Eb\202Cc\2066d\2069'),
 (53,'CJK','表形文字 漢字かなカナ 한국어'),(54,'CJK extension B',U&'\+020BB7\+02A6A5'),(55,'second byte 5c in Shift_JIS','ソ表能'),(56,'Turkish dotted and dotless i','İıIi'),(57,'ligature and sharp s','ﬁ ẞ ß'),
 (58,'byte order mark first',U&'\FEFFbom'),(59,'line and paragraph separator U+2028 U+2029',U&'a\2028b\2029c'),(60,'zero-width space and joiners',U&'a\200Bb\200Cc\200Dd'),(61,'no-break space',U&'a\00A0b'),
 (62,'replacement character',U&'\FFFD'),(63,'noncharacters U+FFFE U+FFFF',U&'\FFFE\FFFF'),(64,'last code point U+10FFFF',U&'\+10FFFF'),(65,'private use',U&'\E000\+0F0000'),(66,'soft hyphen',U&'a\00ADb'),
 (67,'2000 bytes (below the TOAST threshold)',repeat('0123456789',200)),(68,'3000 bytes, compressible',repeat('abc',1000)),(69,'4096 bytes (longest value dumped in full)',repeat('0123456789abcdef',256)),(70,'4097 bytes',repeat('0123456789abcdef',256)||'x');
INSERT INTO types.t_text_big
 SELECT 1,'1 MB incompressible, out of line',string_agg(md5(i::text),'' ORDER BY i),1 FROM generate_series(1,32768) i
 UNION ALL SELECT 2,'1 MB of one letter, out of line (storage is EXTERNAL)',repeat('x',1048576),2
 UNION ALL SELECT 3,'16 kB incompressible',string_agg(md5((-i)::text),'' ORDER BY i),3 FROM generate_series(1,512) i
 UNION ALL SELECT 4,'1 MB of four-byte characters',repeat('😀',262144),4
 UNION ALL SELECT 5,'empty','',5
 UNION ALL SELECT 6,'NULL',NULL,6
 UNION ALL SELECT 7,'60 kB with newlines, quotes and backslashes',repeat(E'line "q" ''a'' \\ \t\n',3641),7;
INSERT INTO types.t_bytea VALUES
 (1,'empty',''),(2,'one zero byte','\x00'),(3,'all byte values 00-ff',(SELECT decode(string_agg(lpad(to_hex(i),2,'0'),'' ORDER BY i),'hex') FROM generate_series(0,255) i)),
 (4,'ascii',convert_to('hello','UTF8')),(5,'backslashes','\x5c5c5c'),(6,'quotes','\x2722'),(7,'not valid UTF-8','\xfffec080eda080'),(8,'text that looks like hex output',convert_to('\x41','UTF8')),
 (9,'leading zeros','\x000001'),(10,'trailing zeros','\x010000'),(11,'newline, CR, NUL, ^Z','\x0a0d001a'),(12,'2048 bytes',decode(repeat('00ff',1024),'hex')),(13,'NULL',NULL);
INSERT INTO types.t_bytea_big
 SELECT 1,'1 MB incompressible, out of line',decode(string_agg(md5(i::text),'' ORDER BY i),'hex'),1 FROM generate_series(1,65536) i
 UNION ALL SELECT 2,'1 MB of zero bytes (compresses to an inline value)',decode(repeat('00',1048576),'hex'),2
 UNION ALL SELECT 3,'16 kB incompressible',decode(string_agg(md5((-i)::text),'' ORDER BY i),'hex'),3 FROM generate_series(1,1024) i
 UNION ALL SELECT 4,'empty','',4
 UNION ALL SELECT 5,'NULL',NULL,5;
INSERT INTO types.t_citext VALUES (1,'empty',''),(2,'mixed case is kept','MixedCase'),(3,'lower','mixedcase'),(4,'unicode','ÜNÏ'),(5,'NULL',NULL);
INSERT INTO types.t_name VALUES
 (1,'63 bytes',repeat('n',63)::name,'a'),(2,'cut at 63 bytes on input',repeat('m',70)::name,'Z'),(3,'empty','',''),(4,'quoted look','Mixed "Case"','"'),(5,'unicode, 21 three-byte characters',repeat('表',21)::name,'\'),(6,'NULL',NULL,NULL);

INSERT INTO types.t_date VALUES
 (1,'epoch','1970-01-01'),(2,'PostgreSQL epoch','2000-01-01'),(3,'day before the epoch','1969-12-31'),(4,'leap day','2024-02-29'),(5,'infinity','infinity'),(6,'-infinity','-infinity'),
 (7,'year 1','0001-01-01'),(8,'1 BC (there is no year 0)','0001-12-31 BC'),(9,'44 BC','0044-03-15 BC'),(10,'lowest','4714-11-24 BC'),(11,'year 9999','9999-12-31'),(12,'year 10000','10000-01-01'),
 (13,'last year of a timestamp','294276-12-31'),(14,'highest','5874897-12-31'),(15,'Julian cut-over, proleptic Gregorian','1582-10-10'),(16,'before 1900','1899-12-31'),(17,'NULL',NULL);
INSERT INTO types.t_time VALUES
 (1,'midnight','00:00','00:00','00:00'),(2,'end of day 24:00:00','24:00:00','24:00:00','24:00:00'),(3,'last microsecond','23:59:59.999999','23:59:59','23:59:59.999'),(4,'rounds up to 24:00:00','23:59:59.9999995','23:59:59.5','23:59:59.9995'),
 (5,'one microsecond','00:00:00.000001','00:00:01','00:00:00.001'),(6,'leap second input 23:59:60','23:59:60','23:59:60','23:59:60'),(7,'trailing zeros of a fraction vanish','12:34:56.100000','12:34:56.1','12:34:56.100'),(8,'NULL',NULL,NULL,NULL);
INSERT INTO types.t_timetz VALUES
 (1,'UTC','12:34:56+00','12:34:56+00'),(2,'half-hour zone','12:34:56.123456+05:30','12:34:56.123+05:30'),(3,'quarter-hour zone','12:34:56-09:45','12:34:56-09:45'),(4,'offset with seconds','12:34:56+00:19:32','12:34:56+00:19:32'),
 (5,'end of day','24:00:00+00','24:00:00+00'),(6,'largest offset','00:00:00+15:59:59','00:00:00+15:59:59'),(7,'smallest offset','00:00:00-15:59:59','00:00:00-15:59:59'),(8,'last microsecond','23:59:59.999999-08','23:59:59.999-08'),(9,'NULL',NULL,NULL);
INSERT INTO types.t_timestamp VALUES
 (1,'epoch','1970-01-01 00:00:00','1970-01-01 00:00:00','1970-01-01 00:00:00'),(2,'microseconds','2024-01-02 03:04:05.123456','2024-01-02 03:04:05.123456','2024-01-02 03:04:05.123456'),
 (3,'one microsecond before the epoch','1969-12-31 23:59:59.999999','1969-12-31 23:59:59','1969-12-31 23:59:59.999'),(4,'infinity','infinity','infinity','infinity'),(5,'-infinity','-infinity','-infinity','-infinity'),
 (6,'44 BC','0044-03-15 12:00:00 BC','0044-03-15 12:00:00 BC','0044-03-15 12:00:00 BC'),(7,'lowest','4714-11-24 00:00:00 BC','4714-11-24 00:00:00 BC','4714-11-24 00:00:00 BC'),
 (8,'highest','294276-12-31 23:59:59.999999','294276-12-31 23:59:59','294276-12-31 23:59:59.999'),(9,'year 10000','10000-01-01 00:00:00','10000-01-01 00:00:00','10000-01-01 00:00:00'),
 (10,'rounding up over a year','2023-12-31 23:59:59.9999996','2023-12-31 23:59:59.5','2023-12-31 23:59:59.9995'),(11,'missing in America/New_York (spring forward)','2024-03-10 02:30:00','2024-03-10 02:30:00','2024-03-10 02:30:00'),
 (12,'twice in America/New_York (fall back)','2024-11-03 01:30:00','2024-11-03 01:30:00','2024-11-03 01:30:00'),(13,'midnight prints with its time','2024-06-01','2024-06-01','2024-06-01'),(14,'leap day','2024-02-29 23:59:59.5','2024-02-29 23:59:59','2024-02-29 23:59:59.5'),
 (15,'beyond nanosecond int64 (after 2262)','2300-01-01 00:00:00.000001','2300-01-01','2300-01-01'),(16,'year 1','0001-01-01 00:00:00','0001-01-01','0001-01-01'),(17,'last microsecond of 1 BC','0001-12-31 23:59:59.999999 BC','0001-12-31 23:59:59 BC','0001-12-31 23:59:59.999 BC'),(18,'NULL',NULL,NULL,NULL);
INSERT INTO types.t_timestamptz VALUES
 (1,'epoch','1970-01-01 00:00:00+00','1970-01-01 00:00:00+00','1970-01-01 00:00:00+00'),(2,'microseconds and a zone','2024-01-02 03:04:05.123456+05:30','2024-01-02 03:04:05+05:30','2024-01-02 03:04:05.123+05:30'),
 (3,'infinity','infinity','infinity','infinity'),(4,'-infinity','-infinity','-infinity','-infinity'),(5,'44 BC','0044-03-15 12:00:00+00 BC','0044-03-15 12:00:00+00 BC','0044-03-15 12:00:00+00 BC'),
 (6,'lowest','4714-11-24 00:00:00+00 BC','4714-11-24 00:00:00+00 BC','4714-11-24 00:00:00+00 BC'),(7,'highest','294276-12-31 23:59:59.999999+00','294276-12-31 23:59:59+00','294276-12-31 23:59:59.999+00'),
 (8,'New York, last second before spring forward','2024-03-10 01:59:59 America/New_York','2024-03-10 01:59:59 America/New_York','2024-03-10 01:59:59 America/New_York'),
 (9,'New York, first second after spring forward','2024-03-10 03:00:00 America/New_York','2024-03-10 03:00:00 America/New_York','2024-03-10 03:00:00 America/New_York'),
 (10,'New York, first 01:30 at fall back','2024-11-03 01:30:00 EDT','2024-11-03 01:30:00 EDT','2024-11-03 01:30:00 EDT'),(11,'New York, second 01:30 at fall back','2024-11-03 01:30:00 EST','2024-11-03 01:30:00 EST','2024-11-03 01:30:00 EST'),
 (12,'half-hour DST (Lord Howe)','2024-04-07 01:45:00 Australia/Lord_Howe','2024-04-07 01:45:00 Australia/Lord_Howe','2024-04-07 01:45:00 Australia/Lord_Howe'),
 (13,'offset with seconds (Amsterdam before 1937)','1930-01-01 00:00:00+00:19:32','1930-01-01 00:00:00+00:19:32','1930-01-01 00:00:00+00:19:32'),(14,'day skipped in Samoa','2011-12-30 12:00:00+00','2011-12-30 12:00:00+00','2011-12-30 12:00:00+00'),
 (15,'year 10000','10000-01-01 00:00:00+00','10000-01-01 00:00:00+00','10000-01-01 00:00:00+00'),(16,'beyond nanosecond int64','1677-09-21 00:12:43+00','1677-09-21 00:12:43+00','1677-09-21 00:12:43+00'),(17,'NULL',NULL,NULL,NULL);
INSERT INTO types.t_interval VALUES
 (1,'zero','0'),(2,'all fields','1 year 2 months 3 days 04:05:06.789012'),(3,'all fields negative','-1 year -2 months -3 days -04:05:06.789012'),(4,'mixed signs','1 mon -1 day +00:00:01'),(5,'mixed signs 2','-1 mon 1 day -00:00:01'),
 (6,'1 month','1 mon'),(7,'30 days (equal to 1 month, not the same)','30 days'),(8,'720 hours (equal to 1 month, not the same)','720:00:00'),(9,'1 day','1 day'),(10,'24 hours','24:00:00'),(11,'one microsecond','00:00:00.000001'),(12,'minus one microsecond','-00:00:00.000001'),
 (13,'longest in years','178000000 years'),(14,'shortest in years','-178000000 years'),(15,'longest time part','2562047788:00:54.775807'),(16,'shortest time part','-2562047788:00:54.775807'),(17,'longest days','2147483647 days'),(18,'months only, over a year','14 mons'),
 (19,'negative months, positive days and time','-14 mons +40 days +25:00:00'),(20,'ISO input','P1Y2M3DT4H5M6.5S'),(21,'largest months','2147483647 months'),(22,'NULL',NULL);
INSERT INTO types.t_interval_fields VALUES
 (1,'all','1 year 2 months','3 days 04:05:06.789','00:00:01.6'),(2,'negative','-1 year -2 months','-3 days -04:05:06.789','-00:00:01.6'),(3,'NULL',NULL,NULL,NULL);

INSERT INTO types.t_uuid VALUES
 (1,'nil','00000000-0000-0000-0000-000000000000'),(2,'max','ffffffff-ffff-ffff-ffff-ffffffffffff'),(3,'upper-case input','A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'),(4,'version 4 shape','12345678-1234-4234-8234-123456789abc'),
 (5,'version 7 shape','018f0000-0000-7000-8000-000000000001'),(6,'braced input without hyphens','{123456781234523482341234567890ab}'),(7,'NULL',NULL);
INSERT INTO types.t_json VALUES
 (1,'SQL NULL',NULL),(2,'JSON null','null'),(3,'empty object','{}'),(4,'empty array','[]'),(5,'scalar number','1'),(6,'scalar string','"text"'),(7,'scalar empty string','""'),(8,'scalar true','true'),
 (9,'white space is kept',E'{ "a" :\n\t[ 1 , 2 ]  }'),(10,'duplicate keys are kept','{"a": 1, "a": 2, "b": 3, "a": null}'),(11,'key order is kept','{"z": 1, "a": 2, "M": 3}'),
 (12,'2^53+1','{"n": 9007199254740993}'),(13,'int64 max and uint64 max','[9223372036854775807, 18446744073709551615]'),(14,'40 digits','[1234567890123456789012345678901234567890]'),(15,'40 decimals','[0.1234567890123456789012345678901234567890]'),
 (16,'number spellings kept','[1.0, 1.00, 1e2, 1E+2, 1e-7, -0, -0.0, 0.10]'),(17,'beyond a double','[1e400, -1e400, 1e-400]'),(18,'unicode escapes kept','"\u00e9 \u0041 \ud83d\ude00 \u2028"'),(19,'escaped NUL (json accepts it, jsonb does not)','"a\u0000b"'),
 (20,'all short escapes','"\"\\\/\b\f\n\r\t"'),(21,'raw unicode','{"é": "表😀"}'),(22,'empty key','{"": 1, " ": 2}'),(23,'nested','{"a": {"b": {"c": [[], {}, [[1]], null, true]}}}'),(24,'depth 100',(repeat('[',100)||repeat(']',100))::json),
 (25,'lone surrogate escape (json accepts it)','"\ud83d"'),(26,'markup characters','"<&>''"'),(27,'string that looks like a number','"9007199254740993"'),(28,'leading and trailing white space',E'  {"a":1}\n');
INSERT INTO types.t_jsonb VALUES
 (1,'SQL NULL',NULL),(2,'JSON null','null'),(3,'empty object','{}'),(4,'empty array','[]'),(5,'scalar number','1'),(6,'scalar string','"text"'),(7,'scalar empty string','""'),(8,'scalar true','true'),
 (9,'white space is normalised',E'{ "a" :\n\t[ 1 , 2 ]  }'),(10,'duplicate keys: the last wins','{"a": 1, "a": 2, "b": 3, "a": null}'),(11,'keys sorted by length, then bytes','{"zz": 1, "b": 2, "a": 3, "AAA": 4}'),
 (12,'2^53+1','{"n": 9007199254740993}'),(13,'int64 max and uint64 max','[9223372036854775807, 18446744073709551615]'),(14,'40 digits','[1234567890123456789012345678901234567890]'),(15,'40 decimals','[0.1234567890123456789012345678901234567890]'),
 (16,'numbers are numeric: trailing zeros kept, exponent and -0 not','[1.0, 1.00, 1e2, 1E+2, 1e-7, -0, -0.0, 0.10]'),(17,'beyond a double','[1e400, -1e400, 1e-400]'),(18,'unicode escapes become characters','"\u00e9 \u0041 \ud83d\ude00 \u2028"'),
 (19,'all short escapes','"\"\\\/\b\f\n\r\t"'),(20,'raw unicode','{"é": "表😀"}'),(21,'empty key','{"": 1, " ": 2}'),(22,'nested','{"a": {"b": {"c": [[], {}, [[1]], null, true]}}}'),(23,'depth 100',(repeat('[',100)||repeat(']',100))::jsonb),
 (24,'markup characters','"<&>''"'),(25,'control characters escaped on output','"\u0001\u001f\u007f"'),(26,'backslashes','{"a\\b": "c\\\\d", "re": "^\\d+$"}'),(27,'3 kB, compressible',(SELECT jsonb_object_agg('key'||i, i) FROM generate_series(1,200) i)),
 (28,'64 kB, out of line',(SELECT jsonb_agg(md5(i::text) ORDER BY i) FROM generate_series(1,1800) i));
INSERT INTO types.t_jsonpath VALUES (1,'root','$'),(2,'filter','$.a[*] ? (@.b > 1 && @.c like_regex "^x")'),(3,'strict','strict $."odd key"[0 to last].type()'),(4,'NULL',NULL);
INSERT INTO types.t_xml VALUES
 (1,'element','<a/>'),(2,'attributes and text','<a b="1" c=''2''>text</a>'),(3,'content fragment, no single root','one<b/>two'),(4,'CDATA','<a><![CDATA[<not> & markup]]></a>'),(5,'entities','<a>&lt;&amp;&gt;&#233;&#x1F600;</a>'),
 (6,'comment and processing instruction','<a><!-- c --><?pi data?></a>'),(7,'namespaces','<n:a xmlns:n="urn:x" xmlns="urn:y"><b/></n:a>'),(8,'declaration (output drops version 1.0)','<?xml version="1.0" encoding="UTF-8"?><a>é</a>'),
 (9,'declaration with standalone','<?xml version="1.0" standalone="yes"?><a/>'),(10,'unicode','<表>😀</表>'),(11,'white space kept',E'<a>\n  <b/>\t</a>\n'),(12,'empty content',''),(13,'NULL',NULL);

INSERT INTO types.t_bit VALUES
 (1,'zeros',B'0',B'00000000',repeat('0',65)::bit(65)),(2,'ones',B'1',B'11111111',repeat('1',65)::bit(65)),(3,'first bit only',B'1',B'10000000',('1'||repeat('0',64))::bit(65)),(4,'last bit only',B'1',B'00000001',(repeat('0',64)||'1')::bit(65)),
 (5,'asymmetric (bit order)',B'0',B'11010010',('1101'||repeat('0',61))::bit(65)),(6,'NULL',NULL,NULL,NULL);
INSERT INTO types.t_varbit VALUES (1,'empty',B'',B''),(2,'leading zeros',B'0001',B'0001'),(3,'trailing zeros',B'1000',B'1000'),(4,'full',B'10101',B'10101'),(5,'300 bits',repeat('110',100)::varbit,B'1'),(6,'NULL',NULL,NULL);
INSERT INTO types.t_inet VALUES
 (1,'IPv4 host (no /32 shown)','192.0.2.1'),(2,'IPv4 host with mask (host bits kept)','192.0.2.1/24'),(3,'IPv4 explicit /32','192.0.2.1/32'),(4,'IPv4 zero','0.0.0.0/0'),(5,'IPv6 host','2001:db8::1'),(6,'IPv6 with mask','2001:db8::1/64'),
 (7,'IPv6 all zero','::'),(8,'IPv6 long input','2001:0DB8:0000:0000:0000:0000:0000:00FF'),(9,'IPv4-mapped','::ffff:192.0.2.1'),(10,'broadcast','255.255.255.255'),(11,'NULL',NULL);
INSERT INTO types.t_cidr VALUES (1,'IPv4 network','192.0.2.0/24'),(2,'IPv4 host (shows /32)','192.0.2.1'),(3,'abbreviated input','10'),(4,'IPv6 network','2001:db8::/32'),(5,'IPv6 host (shows /128)','2001:db8::1'),(6,'everything','0.0.0.0/0'),(7,'NULL',NULL);
INSERT INTO types.t_macaddr VALUES (1,'zero','00:00:00:00:00:00','00:00:00:00:00:00:00:00'),(2,'ones','ff:ff:ff:ff:ff:ff','ff:ff:ff:ff:ff:ff:ff:ff'),(3,'other input spelling','0800.2b01.0203','08002b:0102030405'),(4,'6 bytes into macaddr8 (ff:fe is put in)','02-00-5e-10-00-01','02:00:5e:10:00:01'),(5,'NULL',NULL,NULL);
INSERT INTO types.t_point VALUES (1,'origin','(0,0)'),(2,'17 digits','(0.30000000000000004,-1.0000000000000002)'),(3,'extremes','(1.7976931348623157e308,5e-324)'),(4,'NaN and infinities','(NaN,-Infinity)'),(5,'negative zero','(-0,0)'),(6,'NULL',NULL);
INSERT INTO types.t_line VALUES (1,'A,B,C','{1,-1,0}'),(2,'from two points','(0,0),(1,2)'),(3,'vertical','{1,0,-3}'),(4,'fractions','{0.1,0.2,0.30000000000000004}'),(5,'NULL',NULL);
INSERT INTO types.t_lseg VALUES (1,'plain','[(0,0),(1,2)]'),(2,'zero length','[(1,1),(1,1)]'),(3,'fractions','[(0.1,0.2),(-0.3,1e-300)]'),(4,'NULL',NULL);
INSERT INTO types.t_box VALUES (1,'corners reordered on input','(0,0),(1,2)'),(2,'mixed corners','(1,0),(0,2)'),(3,'zero size','(1,1),(1,1)'),(4,'infinite','(Infinity,Infinity),(-Infinity,-Infinity)'),(5,'NULL',NULL);
INSERT INTO types.t_path VALUES (1,'open','[(0,0),(1,1),(2,0)]'),(2,'closed','((0,0),(1,1),(2,0))'),(3,'one point, open','[(0,0)]'),(4,'one point, closed','((0,0))'),(5,'fractions','[(0.1,0.2),(0.30000000000000004,-0)]'),(6,'NULL',NULL);
INSERT INTO types.t_polygon VALUES (1,'triangle','((0,0),(1,1),(2,0))'),(2,'one point','((0,0))'),(3,'400 points, 6 kB in memory',(SELECT ('('||string_agg(format('(%s,%s)',i,i%7),',' ORDER BY i)||')')::polygon FROM generate_series(1,400) i)),(4,'NULL',NULL);
INSERT INTO types.t_circle VALUES (1,'unit','<(0,0),1>'),(2,'zero radius','<(1,2),0>'),(3,'fractions','<(0.1,-0.2),0.30000000000000004>'),(4,'infinite radius','<(0,0),Infinity>'),(5,'NULL',NULL);

INSERT INTO types.t_int4range VALUES (1,'half open','[1,10)'),(2,'closed input, canonical half open','[1,10]'),(3,'open input','(1,10)'),(4,'empty','empty'),(5,'empty by bounds','[5,5)'),(6,'unbounded','(,)'),(7,'no lower','(,5]'),(8,'no upper','[5,)'),(9,'extremes','[-2147483648,2147483647)'),(10,'single','[3,3]'),(11,'NULL',NULL);
INSERT INTO types.t_int8range VALUES (1,'half open','[1,10)'),(2,'beyond 2^53','[9007199254740993,9223372036854775807)'),(3,'empty','empty'),(4,'unbounded','(,)'),(5,'lowest','[-9223372036854775808,0)'),(6,'NULL',NULL);
INSERT INTO types.t_numrange VALUES (1,'half open','[1.0,10.00)'),(2,'closed stays closed','[1,10]'),(3,'open','(1,10)'),(4,'open-closed','(1.5,2.50]'),(5,'empty','empty'),(6,'unbounded','(,)'),(7,'infinite bound is not unbounded','[-Infinity,Infinity]'),(8,'NaN bound','[0,NaN]'),(9,'40 digits','[0.1234567890123456789012345678901234567890,1234567890123456789012345678901234567890)'),(10,'NULL',NULL);
INSERT INTO types.t_tsrange VALUES (1,'half open','[2024-01-01 00:00:00,2024-01-02 00:00:00.000001)'),(2,'closed','[2024-01-01,2024-01-02]'),(3,'empty','empty'),(4,'unbounded','(,)'),(5,'infinite bounds','[-infinity,infinity]'),(6,'BC','["0044-03-15 00:00:00 BC",2024-01-01)'),(7,'NULL',NULL);
INSERT INTO types.t_tstzrange VALUES (1,'half open','[2024-01-01 00:00:00+00,2024-01-02 00:00:00+05:30)'),(2,'closed','[2024-01-01 00:00:00+00,2024-01-02 00:00:00+00]'),(3,'empty','empty'),(4,'unbounded','(,)'),(5,'infinite bounds','[-infinity,infinity)'),(6,'across fall back','[2024-11-03 01:30:00 EDT,2024-11-03 01:30:00 EST)'),(7,'NULL',NULL);
INSERT INTO types.t_daterange VALUES (1,'half open','[2024-01-01,2024-02-01)'),(2,'closed input','[2024-01-01,2024-01-31]'),(3,'empty','empty'),(4,'unbounded','(,)'),(5,'infinite bounds','[-infinity,infinity)'),(6,'closed infinite bound stays closed','[2024-01-01,infinity]'),(7,'NULL',NULL);
INSERT INTO types.t_customrange VALUES (1,'plain','[a,b)','[0.1,0.30000000000000004]'),(2,'quoting in bounds','["a,b","c""d\\e")','(,1e308)'),(3,'empty string bound','["",z]','[-0,0]'),(4,'spaces, brackets, unicode','["( [","表 😀"]','[-Infinity,NaN]'),(5,'empty','empty','empty'),(6,'unbounded','(,)','(,)'),(7,'NULL',NULL,NULL);
INSERT INTO types.t_multirange VALUES
 (1,'two ranges','{[1,3),[5,8)}','{[1.0,2.00],(3,4)}','{[2024-01-01 00:00+00,2024-01-02 00:00+00),[2024-02-01 00:00+00,)}','{[2024-01-01,2024-02-01)}','{[a,b),["c,d","e f"]}'),
 (2,'empty','{}','{}','{}','{}','{}'),(3,'merged on input','{[1,3),[2,8)}','{[1,2),[2,3)}','{[2024-01-01 00:00+00,2024-01-03 00:00+00),[2024-01-02 00:00+00,2024-01-04 00:00+00)}','{[2024-01-01,2024-01-31],[2024-02-01,2024-02-02]}','{[a,c),[b,d)}'),
 (4,'unbounded','{(,)}','{(,)}','{(,)}','{(,)}','{(,)}'),(5,'empty member vanishes','{empty,[1,2)}','{empty}','{empty}','{empty}','{empty}'),(6,'NULL',NULL,NULL,NULL,NULL,NULL);

INSERT INTO types.t_array_int VALUES
 (1,'plain','{1,2,3}','{-32768,32767}','{-9223372036854775808,9223372036854775807}'),(2,'empty','{}','{}','{}'),(3,'with NULL','{1,NULL,3}','{NULL}','{NULL,9007199254740993}'),(4,'two dimensions','{{1,2},{3,4}}','{{1},{2}}','{{1,NULL},{NULL,4}}'),
 (5,'three dimensions','{{{1,2},{3,4}},{{5,6},{7,8}}}','{{{1}}}','{{{1}}}'),(6,'lower bound 0','[0:2]={1,2,3}','[0:0]={7}','[0:1]={1,2}'),(7,'negative lower bounds, two dimensions','[-1:0][3:4]={{1,2},{3,4}}','[-2:-1]={1,2}','[5:5]={9}'),
 (8,'lower bound 1 written out','[1:2]={1,2}','[1:1]={1}','[1:1]={1}'),(9,'1000 elements',(SELECT array_agg(i ORDER BY i) FROM generate_series(1,1000) i),'{1}','{1}'),(10,'NULL',NULL,NULL,NULL);
INSERT INTO types.t_array_text VALUES
 (1,'plain','{a,b}'),(2,'empty array','{}'),(3,'NULL element',ARRAY['a',NULL,'c']),(4,'the word NULL, quoted',ARRAY['NULL','null','Null']),(5,'empty string element',ARRAY['','x','']),(6,'only an empty string',ARRAY['']),(7,'only a NULL',ARRAY[NULL]::text[]),
 (8,'comma, braces',ARRAY['a,b','{c}','d}','{']),(9,'double quotes',ARRAY['say "hi"','"']),(10,'backslashes',ARRAY['\','\\','a\b','\"']),(11,'single quotes',ARRAY['it''s','''']),(12,'white space',ARRAY[' a','a ',' ',E'\t',E'a\nb',E'\r\n']),
 (13,'unicode',ARRAY['é','表','😀',U&'e\0301','שלום']),(14,'two dimensions',ARRAY[['a','b,c'],[NULL,'"']]),(15,'lower bound 2',('[2:3]={x,"y z"}')::text[]),(16,'looks like an array',ARRAY['{1,2}','[0:1]={1,2}']),(17,'backslash N',ARRAY['\N']),
 (18,'semicolon, parentheses, equals',ARRAY['a;b','(x)','k=>v','a=b']),(19,'SQL NULL',NULL),(20,'long element',ARRAY[repeat('x',3000),'y']);
INSERT INTO types.t_array_char VALUES (1,'padding inside arrays','{a,"b ",""}','{"a ",""}'),(2,'NULL element','{NULL,abc}','{NULL}'),(3,'NULL',NULL,NULL);
INSERT INTO types.t_array_numeric VALUES
 (1,'plain','{1,1.0,1.00,-0.5}','{1,0.1,-0}','{1.00,-1.00}'),(2,'specials','{NaN,Infinity,-Infinity,NULL}','{NaN,Infinity,-Infinity,NULL,5e-324,1.7976931348623157e308}',ARRAY['92233720368547758.07',NULL,'1,234.56']::money[]),
 (3,'long digits','{1234567890123456789012345678901234567890.1234567890}','{0.30000000000000004}','{}'),(4,'empty','{}','{}','{}'),(5,'two dimensions','{{1.10,2},{3,4.0}}','{{1,2},{3,4}}','{{1},{2}}'),(6,'NULL',NULL,NULL,NULL);
INSERT INTO types.t_array_bool VALUES (1,'plain','{t,f}'),(2,'NULL element','{t,NULL}'),(3,'empty','{}'),(4,'NULL',NULL);
INSERT INTO types.t_array_time VALUES
 (1,'plain','{"2024-01-02 03:04:05.123456+00","2024-01-02 03:04:05+05:30"}','{"2024-01-02 03:04:05.123456"}','{2024-01-02}','{24:00:00,00:00:00.000001}','{"1 mon -1 day","1 year 02:03:04"}'),
 (2,'specials','{infinity,-infinity,NULL,"0044-03-15 12:00:00+00 BC","294276-12-31 23:59:59.999999+00"}','{infinity,NULL,"0044-03-15 12:00:00 BC"}','{infinity,-infinity,"0044-03-15 BC",NULL,5874897-12-31}','{NULL}','{NULL,"-178000000 years","00:00:00"}'),
 (3,'empty','{}','{}','{}','{}','{}'),(4,'NULL',NULL,NULL,NULL,NULL,NULL);
INSERT INTO types.t_array_uuid VALUES (1,'plain','{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff}'),(2,'NULL element','{NULL,12345678-1234-4234-8234-123456789abc}'),(3,'empty','{}'),(4,'NULL',NULL);
INSERT INTO types.t_array_json VALUES
 (1,'objects',ARRAY['{"a": 1, "b": "x,y"}','[1, 2]']::jsonb[],ARRAY['{"a":1,"a":2}','[ 1 ]']::json[]),(2,'JSON null against SQL NULL element',ARRAY['null',NULL,'"null"']::jsonb[],ARRAY['null',NULL,'"null"']::json[]),
 (3,'quotes and backslashes',ARRAY['"a\"b\\c{}"','{"k\"": "\\"}']::jsonb[],ARRAY['"\u0041\\"']::json[]),(4,'big numbers',ARRAY['9007199254740993','1.00']::jsonb[],ARRAY['9007199254740993','1.00']::json[]),(5,'empty','{}','{}'),(6,'NULL',NULL,NULL);
INSERT INTO types.t_array_bytea VALUES (1,'plain',ARRAY['\x00','\xff00','']::bytea[]),(2,'NULL element',ARRAY[NULL,'\x5c22']::bytea[]),(3,'empty','{}'),(4,'NULL',NULL);
INSERT INTO types.t_array_enum VALUES
 (1,'plain','{plain,Mixed}','{One,one}'),(2,'quoting',ARRAY['with space','it''s','say "hi"','comma,comma','{brace}','back\slash']::types.odd_enum[],ARRAY['TWO words']::"Odd Schema"."MixedCase Enum"[]),
 (3,'empty, NULL-like and NULL',ARRAY['','NULL','null',' ',NULL]::types.odd_enum[],ARRAY[NULL]::"Odd Schema"."MixedCase Enum"[]),(4,'empty','{}','{}'),(5,'two dimensions','{{plain,mixed},{表,😀}}','{{One},{one}}'),(6,'NULL',NULL,NULL);
INSERT INTO types.t_array_geo VALUES (1,'two boxes','{(1,1),(0,0);(3,3),(2,2)}','{"(1,2)","(0.1,-0)"}'),(2,'NULL element','{NULL;(1,1),(0,0)}','{NULL,"(NaN,Infinity)"}'),(3,'empty','{}','{}'),(4,'NULL',NULL,NULL);
INSERT INTO types.t_array_other VALUES
 (1,'plain','{192.0.2.1,192.0.2.1/24,2001:db8::1}','{"[1,3)",empty,"(,)"}',ARRAY[ROW(1,'a,b'),ROW(NULL,'say "hi"')]::types.pair[],ARRAY['"a"=>"1", "b"=>NULL','']::public.hstore[],'{1.00,2.5}','{101,000}'),
 (2,'NULL elements','{NULL}','{NULL}',ARRAY[NULL,ROW(NULL,NULL)]::types.pair[],ARRAY[NULL]::public.hstore[],'{NULL}','{NULL}'),(3,'empty','{}','{}','{}','{}','{}','{}'),(4,'NULL',NULL,NULL,NULL,NULL,NULL,NULL);

INSERT INTO types.t_enum SELECT row_number() OVER (ORDER BY e), 'value '||row_number() OVER (ORDER BY e), e, NULL, NULL FROM unnest(enum_range(NULL::types.odd_enum)) e;
INSERT INTO types.t_enum VALUES (101,'plain','plain','zeta','One'),(102,'plain 2','plain','alpha','one'),(103,'plain 3','plain','mid','TWO words'),(104,'NULL',NULL,NULL,NULL);
INSERT INTO types.t_domain VALUES (1,'plain',1.5,'AB-1',99.99,'{a,"b c"}','ten chars.'),(2,'max',9999999999.99,'ZZ-999999',0,'{}',''),(3,'zero keeps its scale',0,'AA-0',0.10,'{NULL}','x '),(4,'NULL',NULL,NULL,NULL,NULL,NULL);
INSERT INTO types.t_composite VALUES
 (1,'plain',ROW(1,'a'),ROW('x',ROW(2,'b')::types.pair,ARRAY['t1','t 2'],'2024-01-02 03:04:05.5+00')::types.nested),(2,'quoting',ROW(-1,'a,"b" (c) \d''e'),ROW('q"',ROW(0,'(")')::types.pair,ARRAY['a"b','c,d',NULL],'infinity')::types.nested),
 (3,'empty string against NULL',ROW(NULL,''),ROW('',ROW(NULL,NULL)::types.pair,'{}',NULL)::types.nested),(4,'row of NULLs is not NULL',ROW(NULL,NULL),ROW(NULL,NULL,NULL,NULL)::types.nested),(5,'white space',ROW(1,E' a\n'),ROW(' ',ROW(1,' ')::types.pair,ARRAY[' '],NULL)::types.nested),
 (6,'unicode',ROW(1,'表😀'),NULL),(7,'NULL',NULL,NULL);

INSERT INTO types.t_hstore VALUES (1,'plain','a=>1, b=>2'),(2,'NULL value against the word','a=>NULL, b=>"NULL"'),(3,'empty',''),(4,'quoting','"a b"=>"c,d", "q\""=>"\\", "=>"=>"=>"'),(5,'empty key and value','""=>""'),(6,'unicode','"é"=>"表😀"'),(7,'duplicate keys','a=>1, a=>2'),(8,'newline in value',E'"k"=>"a\nb"'),(9,'NULL',NULL);
INSERT INTO types.t_ltree VALUES (1,'path','Top.Science.Astronomy','Top.*'),(2,'one label','a','*.a|b.*{1,2}'),(3,'empty','','!a'),(4,'underscores, digits, case','A_1.b_2.C3','A_1@.b%*'),(5,'NULL',NULL,NULL);
INSERT INTO types.t_tsvector VALUES (1,'plain','a:1 b:2'),(2,'weights and several positions','fat:2,4 cat:3A rat:1B,5C'),(3,'no positions','b a'),(4,'quoting','''it''''s'':1 ''a b'':2 ''c\\d'':3 '':''' ),(5,'empty',''),(6,'unicode','表:1 é:2'),(7,'position limit','a:16383 b:20000'),(8,'NULL',NULL);
INSERT INTO types.t_tsquery VALUES (1,'and or not','a & b | !c'),(2,'phrase','a <-> b <3> c'),(3,'weights and prefix','a:AB & b:*'),(4,'quoting','''it''''s'' & ''a b'''),(5,'empty',''),(6,'nested','(a | b) & !(c | d)'),(7,'NULL',NULL);
INSERT INTO types.t_oid VALUES
 (1,'zero','0','-','-','-','-','-'),(2,'max','4294967295','4294967295','4294967295','4294967295','4294967295','4294967295'),(3,'above int4','2147483648','pg_class','integer','pg_catalog.lower(text)','pg_catalog','pg_read_all_data'),
 (4,'user objects (their oids differ between databases)','1','types.t_oid','types.odd_enum','public.hstore(text,text)','types','pg_monitor'),(5,'quoted names','2','types."Mixed Table"','"Odd Schema"."MixedCase Enum"[]','pg_catalog.format(text,"any")','"Odd Schema"','pg_signal_backend'),(6,'NULL',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO types.t_xid VALUES (1,'zero','0','0','0','(0,0)'),(2,'max','4294967295','18446744073709551615','4294967295','(4294967295,65535)'),(3,'above int4 and 2^53','2147483648','9007199254740993','2147483648','(2147483648,32768)'),(4,'NULL',NULL,NULL,NULL,NULL);
INSERT INTO types.t_pg_lsn VALUES (1,'zero','0/0'),(2,'max','FFFFFFFF/FFFFFFFF'),(3,'low word without padding','16/B374D848'),(4,'high bit','80000000/1'),(5,'NULL',NULL);
INSERT INTO types.t_snapshot VALUES (1,'none in progress','10:20:','10:20:'),(2,'some in progress','10:20:10,14,15','10:20:10,14,15'),(3,'large','9007199254740993:9007199254740995:9007199254740993','9007199254740993:9007199254740995:9007199254740993'),(4,'NULL',NULL,NULL);
INSERT INTO types.t_vector VALUES (1,'plain','1 2 3','1 2 3'),(2,'empty','',''),(3,'extremes','-32768 32767','0 4294967295'),(4,'NULL',NULL,NULL);

INSERT INTO types.t_generated (id,label,v,v_txt) VALUES (1,'plain',21,'abc'),(2,'negative',-1,'é'),(3,'NULL base',NULL,NULL),(4,'zero',0,'');
INSERT INTO types.t_identity_always (label,v) VALUES ('first',10),('second',20),('third',NULL);
INSERT INTO types.t_identity_always (id,label,v) OVERRIDING SYSTEM VALUE VALUES (100,'explicit id',30);
INSERT INTO types.t_identity_default (id,label) VALUES (1,'both from sequences'),(2,'both from sequences');
INSERT INTO types.t_identity_default (id,label,v,v_serial) VALUES (3,'explicit',-5,9007199254740993);
INSERT INTO types.t_default (id) VALUES (1);
INSERT INTO types.t_default VALUES (2,'explicit NULL where allowed',NULL,'',NULL,NULL,NULL,NULL,NULL),(3,NULL,0,'x',0,'2000-01-01 00:00:00+00','{}','{a}','zeta');
INSERT INTO types.t_not_null VALUES (1,'empty string and zero','',0),(2,'plain','x',1);
INSERT INTO types.t_dropped_column VALUES (1,'plain',1,'a'),(2,'NULL',NULL,NULL);
INSERT INTO types.t_all_null (id,label) VALUES (1,'every value NULL'),(2,NULL);
INSERT INTO types.t_only_key VALUES (1),(2),(-2147483648),(2147483647);
INSERT INTO types.t_wide (id,label,c1,c2,c5,c120) VALUES (1,'mostly NULL','text',2.50,7,-7),(2,'all NULL',NULL,NULL,NULL,NULL);

INSERT INTO types.t_columns (id,label,"MixedCase",mixedcase,"with space","select","user","quote""d","apos'trophe","ünïcode","表","😀","dot.ted","back\slash","slash/ed"," leading","trailing ","1digit","$dollar","100%","a:b","a,b","a-b","[x]","{x}","?","ctid_","before","after","op","__deleted","a column name of exactly sixty-three bytes, longest PG allows x")
 VALUES (1,'every column','v03','v04','v05','v06','v07','v08','v09','v10','v11','v12','v13','v14','v15','v16','v17','v18','v19','v20','v21','v22','v23','v24','v25','v26','v27','v28','v29','v30','v31','v32');
INSERT INTO types.t_columns (id,label) VALUES (2,'NULLs');
INSERT INTO types."Mixed Table" VALUES (1,'row','upper');
INSERT INTO types."mixed table" VALUES (1,'row','lower');
INSERT INTO types."select" VALUES (1,'row','reserved');
INSERT INTO types."quote""d 'table'" VALUES (1,'row','quotes');
INSERT INTO types."dot.ted" VALUES (1,'row','dot');
INSERT INTO types."slash/back\ 100% $x *?" VALUES (1,'row','slashes');
INSERT INTO types."tablé_表_😀" VALUES (1,'row','unicode');
INSERT INTO types."a table name of exactly sixty-three bytes, longest PG allows xx" VALUES (1,'row','long');
INSERT INTO "Odd Schema"."Odd Table" VALUES (1,'row','value'),(2,'row',NULL);
INSERT INTO "Odd Schema".t_text VALUES (1,'same table name as types.t_text','other schema');
INSERT INTO "select"."from" VALUES (1,'row','x',1),(2,'row',NULL,NULL);
INSERT INTO "schéma.表"."täble.表" VALUES (1,'row','é'),(2,'row',NULL);

-- rows of the change tables at snapshot time
INSERT INTO chg.toast_default SELECT i,'row '||i,i,(SELECT string_agg(md5((i*100000+j)::text),'' ORDER BY j) FROM generate_series(1,1024) j),decode((SELECT string_agg(md5((i*200000+j)::text),'' ORDER BY j) FROM generate_series(1,1024) j),'hex'),'k'||i FROM generate_series(1,8) i;
INSERT INTO chg.toast_full SELECT * FROM chg.toast_default;
INSERT INTO chg.toast_index SELECT * FROM chg.toast_default;
INSERT INTO chg.toast_nothing SELECT * FROM chg.toast_default WHERE id <= 2;
INSERT INTO chg.toast_types SELECT i,'row '||i,i,(SELECT jsonb_agg(md5((i*1000+j)::text) ORDER BY j) FROM generate_series(1,300) j),(SELECT array_agg((i*1000+j)*7919 ORDER BY j) FROM generate_series(1,3000) j),
  (SELECT public.hstore(array_agg('k'||j ORDER BY j),array_agg(md5((i*1000+j)::text) ORDER BY j)) FROM generate_series(1,300) j),('<a>'||(SELECT string_agg(md5((i*1000+j)::text),'' ORDER BY j) FROM generate_series(1,300) j)||'</a>')::xml,
  (SELECT ('1'||string_agg(translate(md5((i*1000+j)::text),'abcdef','012345'),'' ORDER BY j))::numeric FROM generate_series(1,300) j) FROM generate_series(1,4) i;
INSERT INTO chg.nopk_full VALUES (1,'dup',1.0),(1,'dup',1.0),(1,'dup',1.0),(2,NULL,NULL),(NULL,NULL,NULL),(NULL,NULL,NULL),(3,'','NaN'),(4,'plain',2.0);
INSERT INTO chg.nopk_full_equal VALUES ('equal, not the same',2.0,0),('equal, not the same',2.00,'-0');
INSERT INTO chg.nopk_insert_only VALUES (1,'a'),(1,'a'),(NULL,NULL);
INSERT INTO chg.composite_pk VALUES (1,'row','x',10),(2,'row','y',10),(1,'row','z',20);
INSERT INTO chg.only_pk VALUES (1),(2),(3);
INSERT INTO chg.pk_swap VALUES (1,'one'),(2,'two'),(3,'three'),(4,'four');
INSERT INTO chg.key_text VALUES ('','empty'),(' ','space'),('a','lower'),('A','upper'),('a ','trailing space'),('it''s "q" \','quotes'),(U&'\00E9','precomposed'),(U&'e\0301','decomposed'),('😀','emoji'),(E'a\nb','newline'),('NULL','word'),('\N','marker');
INSERT INTO chg.key_char VALUES ('a','padded'),('abcde','full'),('','empty');
INSERT INTO chg.key_citext VALUES ('Alpha','mixed'),('BETA','upper');
INSERT INTO chg.key_uuid VALUES ('00000000-0000-0000-0000-000000000000','nil'),('ffffffff-ffff-ffff-ffff-ffffffffffff','max');
INSERT INTO chg.key_numeric VALUES (1.0,'one'),(9007199254740993,'2^53+1'),(9007199254740992,'2^53'),('NaN','nan'),('Infinity','inf'),(0.00,'zero');
INSERT INTO chg.key_double VALUES (0,'zero'),('NaN','nan'),('-Infinity','-inf'),(0.1,'0.1'),(0.30000000000000004,'17 digits'),(0.3,'0.3');
INSERT INTO chg.key_bytea VALUES ('','empty'),('\x00','zero'),('\x0000','two zeros'),('\xff','ff'),('\x5c','backslash');
INSERT INTO chg.key_timestamptz VALUES ('infinity','inf'),('-infinity','-inf'),('2024-11-03 01:30:00 EDT','first 01:30'),('2024-11-03 01:30:00 EST','second 01:30'),('0044-03-15 12:00:00+00 BC','BC'),('2024-01-01 00:00:00.000001+00','microsecond');
INSERT INTO chg.key_enum VALUES ('with space','space'),('it''s','apostrophe'),('','empty'),('NULL','word');
INSERT INTO chg.key_array VALUES ('{}','empty'),('{1,2}','plain'),('{NULL}','null element'),('[0:1]={1,2}','lower bound 0');
INSERT INTO chg.multi_row SELECT i,'row',i FROM generate_series(1,20) i;
INSERT INTO chg.upsert VALUES (1,'one',1),(2,'two',2),(3,'three',3);
INSERT INTO chg.copied VALUES (1,'before','x');
INSERT INTO chg.copied_csv VALUES (1,'before','x');
INSERT INTO chg.savepoints VALUES (1,'before',0);
INSERT INTO chg.aborted VALUES (1,'before','x');
INSERT INTO chg.interleaved VALUES (1,'before',0),(2,'before',0);
INSERT INTO chg.two_phase VALUES (1,'before');
INSERT INTO chg.big_txn VALUES (1,'before',0);
INSERT INTO chg.trunc_a VALUES (1,'a'),(2,'a');
INSERT INTO chg.trunc_b VALUES (1,'b',1),(2,'b',2);
INSERT INTO chg.trunc_c VALUES (1,'c'),(2,'c');
INSERT INTO chg.trunc_d VALUES (1,'d');
INSERT INTO chg.trunc_identity (label) VALUES ('one'),('two');
INSERT INTO chg.fk_parent VALUES (1,'p1'),(2,'p2'),(3,'p3');
INSERT INTO chg.fk_cascade VALUES (11,'c',1),(12,'c',1),(21,'c',2),(31,'c',3);
INSERT INTO chg.fk_setnull VALUES (11,'s',1),(21,'s',2),(31,'s',3);
INSERT INTO chg.part VALUES ('north',1,'row',1),('south',1,'row',2),('east',1,'row',3),('east',150,'row',4),('elsewhere',1,'row',5);
INSERT INTO chg.part_trunc SELECT i,'row' FROM generate_series(1,10) i;
INSERT INTO chg.inherit_parent VALUES (1,'in the parent');
INSERT INTO chg.inherit_child VALUES (2,'in the child','x');
INSERT INTO chg.alter_columns VALUES (1,'before',1,'drop me','rename me');
INSERT INTO chg.alter_type VALUES (1,'before',2147483647,'42','abcde',1234.50,'2024-01-02 03:04:05.123456');
INSERT INTO chg.alter_default VALUES (1,'before');
INSERT INTO chg.alter_same_txn VALUES (1,'before');
INSERT INTO chg.alter_pk VALUES (1,'before','c1'),(2,'before','c2');
INSERT INTO chg.alter_enum VALUES (1,'before','old one'),(2,'before','old two');
INSERT INTO chg.alter_swap VALUES (1,'before','in a','in b');
INSERT INTO chg.rename_table_old VALUES (1,'before');
INSERT INTO chg.move_schema VALUES (1,'before');
INSERT INTO chg.dropped_later VALUES (1,'before');
INSERT INTO chg.rewritten SELECT i,'before','v'||i FROM generate_series(1,50) i;

-- Type fidelity corpus, PostgreSQL side: changes over the tables of load.sql.
--
--   psql -X -d CONNECTION -f changes.sql
--
-- Run it once, on a database freshly loaded with load.sql, while replication is running (or with a slot already created).
-- Needs wal_level=logical on the source for the changes to be of use; the script itself does not look at it.
-- It can be run under a publication FOR ALL TABLES: tables that refuse UPDATE and DELETE there are only inserted into.
--
-- Second session: section 5 opens one through the contrib extension dblink, back to the same server through its first unix socket
-- directory (or 127.0.0.1) as the current user. To use another route: -v second_session='host=... port=... dbname=... user=...'.
-- Where that fails the same changes run one transaction after the other, in the same commit order, and end in the same state.
-- Two-phase: section 6 uses PREPARE TRANSACTION where max_prepared_transactions allows it, else plain transactions with the same end state.

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

-- =====================================================================================
-- 1. Every type table: each value goes through INSERT, UPDATE, key change and DELETE
-- =====================================================================================
-- One statement per table and step, made from the catalogue; each statement is its own transaction.
CREATE TEMP TABLE corpus_tables AS
SELECT format('%I.%I', n.nspname, c.relname) AS tbl,
  string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attgenerated = '') AS cols,
  string_agg(CASE a.attname WHEN 'id' THEN 'id + 1000' WHEN 'label' THEN '''cdc: '' || label' ELSE format('%I', a.attname) END, ', ' ORDER BY a.attnum) FILTER (WHERE a.attgenerated = '') AS copies,
  string_agg(format('%1$I = b.%1$I', a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attname NOT IN ('id', 'label') AND a.attgenerated = '' AND a.attidentity <> 'a') AS from_b,
  string_agg(format('%I = NULL', a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attname NOT IN ('id', 'label') AND a.attgenerated = '' AND NOT a.attnotnull) AS to_null,
  bool_or(a.attidentity = 'a') AS always
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind = 'r' AND n.nspname IN ('types', 'Odd Schema')
GROUP BY n.nspname, c.relname
HAVING bool_or(a.attname = 'id') AND bool_or(a.attname = 'label');

-- 1a. INSERT: a copy of each row under id + 1000
SELECT format('INSERT INTO %s (%s)%s SELECT %s FROM %s WHERE id <= 1000 ORDER BY id', tbl, cols, CASE WHEN always THEN ' OVERRIDING SYSTEM VALUE' ELSE '' END, copies, tbl) FROM corpus_tables ORDER BY tbl COLLATE "C" \gexec
-- 1b. UPDATE of the label only: every value column is unchanged (out-of-line ones are absent from the stream)
SELECT format('UPDATE %s SET label = ''upd: '' || label WHERE id = 1 OR id > 1000 AND id %% 2 = 0', tbl) FROM corpus_tables ORDER BY tbl COLLATE "C" \gexec
-- 1c. UPDATE of the values: every third copy takes the values of the row before it
SELECT format('UPDATE %s AS a SET %s FROM %s AS b WHERE a.id > 1000 AND a.id %% 3 = 0 AND b.id = a.id - 1001', tbl, from_b, tbl) FROM corpus_tables WHERE from_b IS NOT NULL ORDER BY tbl COLLATE "C" \gexec
-- 1d. UPDATE to NULL
SELECT format('UPDATE %s SET %s WHERE id = 1002', tbl, to_null) FROM corpus_tables WHERE to_null IS NOT NULL ORDER BY tbl COLLATE "C" \gexec
-- 1e. UPDATE of the key, nothing else
SELECT format('UPDATE %s SET id = 5001 WHERE id = 1001', tbl) FROM corpus_tables WHERE NOT always ORDER BY tbl COLLATE "C" \gexec
-- 1f. replica identity FULL, set while replication runs: now old rows carry every column, so each type is decoded in old rows too
SELECT format('ALTER TABLE %s REPLICA IDENTITY FULL', tbl) FROM corpus_tables ORDER BY tbl COLLATE "C" \gexec
SELECT format('UPDATE %s SET label = ''full: '' || label WHERE id = 2 OR id > 1000 AND id %% 5 = 0', tbl) FROM corpus_tables ORDER BY tbl COLLATE "C" \gexec
SELECT format('UPDATE %s AS a SET %s FROM %s AS b WHERE a.id > 1000 AND a.id %% 5 = 1 AND b.id = a.id - 1001', tbl, from_b, tbl) FROM corpus_tables WHERE from_b IS NOT NULL ORDER BY tbl COLLATE "C" \gexec
SELECT format('DELETE FROM %s WHERE id > 1000 AND id %% 7 = 0', tbl) FROM corpus_tables ORDER BY tbl COLLATE "C" \gexec
SELECT format('UPDATE %s SET id = 5003 WHERE id = 1003', tbl) FROM corpus_tables WHERE NOT always ORDER BY tbl COLLATE "C" \gexec
-- 1g. back to DEFAULT: old rows carry the key alone
SELECT format('ALTER TABLE %s REPLICA IDENTITY DEFAULT', tbl) FROM corpus_tables ORDER BY tbl COLLATE "C" \gexec
SELECT format('DELETE FROM %s WHERE id = 3 OR id > 1000 AND id %% 11 = 0', tbl) FROM corpus_tables ORDER BY tbl COLLATE "C" \gexec
DROP TABLE corpus_tables;

-- 1h. the tables of the identifier family whose key is not called id
INSERT INTO "Odd Schema"."Odd Table" VALUES (3,'cdc','new'),(4,'cdc','to delete');
UPDATE "Odd Schema"."Odd Table" SET "The Value" = 'it''s "set"' WHERE "Primary Key" = 2;
UPDATE "Odd Schema"."Odd Table" SET "Primary Key" = 30 WHERE "Primary Key" = 3;
DELETE FROM "Odd Schema"."Odd Table" WHERE "Primary Key" = 4;
INSERT INTO "select"."from" VALUES (3,'cdc','new',3),(4,'cdc','to delete',4);
UPDATE "select"."from" SET "order" = -1, "group" = NULL WHERE "where" = 1;
DELETE FROM "select"."from" WHERE "where" = 4;
INSERT INTO "schéma.表"."täble.表" VALUES (3,'cdc','表'),(4,'cdc','to delete');
UPDATE "schéma.表"."täble.表" SET "значение" = '😀' WHERE "ключ" = 2;
DELETE FROM "schéma.表"."täble.表" WHERE "ключ" = 4;
INSERT INTO types.t_only_key VALUES (10),(11);
UPDATE types.t_only_key SET id = 12 WHERE id = 11;
UPDATE types.t_only_key SET id = id WHERE id = 10;
DELETE FROM types.t_only_key WHERE id = -2147483648;

-- =====================================================================================
-- 2. Unchanged out-of-line values under each replica identity
-- =====================================================================================
-- The same statements on DEFAULT, FULL and USING INDEX. big (text) and big_b (bytea) are 32 kB and 16 kB, out of line.
SELECT format(s, t) FROM unnest(ARRAY['chg.toast_default', 'chg.toast_full', 'chg.toast_index']) WITH ORDINALITY x(t, i), unnest(ARRAY[
  'UPDATE %1$s SET n = n + 100 WHERE id = 1',                                                       -- both big columns unchanged
  'UPDATE %1$s SET big = ''short'' WHERE id = 2',                                                   -- one changed, one unchanged
  'UPDATE %1$s SET big = NULL, big_b = NULL WHERE id = 3',                                          -- NULL is not "unchanged"
  'UPDATE %1$s SET big = (SELECT string_agg(md5((j * 7)::text), '''' ORDER BY j) FROM generate_series(1, 1024) j) WHERE id = 4',
  'UPDATE %1$s SET id = 50 WHERE id = 5',                                                           -- primary key changes, big columns do not
  'UPDATE %1$s SET k = ''new key'' WHERE id = 6',                                                   -- column of the USING INDEX identity changes, big columns do not
  'UPDATE %1$s SET id = 70, k = ''k70'', n = 70 WHERE id = 7',
  'UPDATE %1$s SET big = big || ''x'' WHERE id = 1',                                                -- changed after an update that left it unchanged
  'UPDATE %1$s SET n = n WHERE id = 1',                                                             -- no-op update, still an event
  'UPDATE %1$s SET label = NULL WHERE id = 1',
  'DELETE FROM %1$s WHERE id = 8',
  'BEGIN; INSERT INTO %1$s SELECT 90, ''same txn'', 1, big, big_b, ''k90'' FROM %1$s WHERE id = 4; UPDATE %1$s SET n = 2 WHERE id = 90; UPDATE %1$s SET id = 91 WHERE id = 90; COMMIT',  -- unchanged value of a row inserted in the same transaction
  'INSERT INTO %1$s SELECT 92, ''insert, key change and delete'', 1, big, big_b, ''k92'' FROM %1$s WHERE id = 4',
  'UPDATE %1$s SET id = 93 WHERE id = 92',
  'DELETE FROM %1$s WHERE id = 93']) WITH ORDINALITY y(s, j) ORDER BY i, j \gexec
-- NOTHING: a publication that publishes updates refuses UPDATE and DELETE on it, so inserts only
INSERT INTO chg.toast_nothing SELECT id + 100, 'inserted', n, big, big_b, k FROM chg.toast_nothing WHERE id = 1;
-- out-of-line values of other types, unchanged
UPDATE chg.toast_types SET n = 100 WHERE id = 1;
UPDATE chg.toast_types SET id = 20 WHERE id = 2;
UPDATE chg.toast_types SET j = '{}', a = '{}', h = '', num = 0 WHERE id = 3;
UPDATE chg.toast_types SET n = 300 WHERE id = 3;
ALTER TABLE chg.toast_types REPLICA IDENTITY FULL;
UPDATE chg.toast_types SET n = 400 WHERE id = 4;
DELETE FROM chg.toast_types WHERE id = 1;

-- =====================================================================================
-- 3. Keys
-- =====================================================================================
-- 3a. swap and shift of primary keys: the order of events decides
BEGIN;
UPDATE chg.pk_swap SET id = -1 WHERE id = 1;
UPDATE chg.pk_swap SET id = 1 WHERE id = 2;
UPDATE chg.pk_swap SET id = 2 WHERE id = -1;
COMMIT;
UPDATE chg.pk_swap SET id = 5 WHERE id = 4;
UPDATE chg.pk_swap SET id = 4 WHERE id = 3;
INSERT INTO chg.pk_swap VALUES (3,'new three');
DELETE FROM chg.pk_swap WHERE id = 3;
INSERT INTO chg.pk_swap VALUES (3,'newer three');          -- delete and re-insert of one key
BEGIN;
DELETE FROM chg.pk_swap WHERE id = 5;
INSERT INTO chg.pk_swap VALUES (5,'delete and insert in one transaction');
UPDATE chg.pk_swap SET id = 6 WHERE id = 5;
INSERT INTO chg.pk_swap VALUES (5,'key reused in the transaction that freed it');
COMMIT;

-- 3b. composite key, declared in another order than the columns
INSERT INTO chg.composite_pk VALUES (3,'cdc','new',10);
UPDATE chg.composite_pk SET b = 'upd' WHERE c = 10 AND a = 1;
UPDATE chg.composite_pk SET a = 5 WHERE c = 10 AND a = 2;                  -- half of the key
UPDATE chg.composite_pk SET a = 20, c = 1 WHERE c = 20 AND a = 1;          -- both halves, values exchanged
DELETE FROM chg.composite_pk WHERE c = 10 AND a = 3;

-- 3c. a table whose only column is its key
INSERT INTO chg.only_pk VALUES (4);
UPDATE chg.only_pk SET id = 40 WHERE id = 4;
DELETE FROM chg.only_pk WHERE id = 1;

-- 3d. keys of other types
INSERT INTO chg.key_text VALUES ('null','word in lower case');
UPDATE chg.key_text SET label = 'upd' WHERE k IN ('', 'a ', 'it''s "q" \', '\N');
UPDATE chg.key_text SET k = 'A ' WHERE k = 'A';
UPDATE chg.key_text SET k = U&'\00E9\00E9' WHERE k = U&'\00E9';            -- the decomposed twin must stay
DELETE FROM chg.key_text WHERE k IN ('NULL', ' ', E'a\nb');
UPDATE chg.key_char SET label = 'upd' WHERE k = 'a';
DELETE FROM chg.key_char WHERE k = '';
UPDATE chg.key_citext SET k = 'ALPHA' WHERE k = 'alpha';                   -- equal key, other spelling
DELETE FROM chg.key_citext WHERE k = 'beta';
UPDATE chg.key_uuid SET label = 'upd' WHERE k = '00000000-0000-0000-0000-000000000000';
DELETE FROM chg.key_uuid WHERE k = 'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF';
UPDATE chg.key_numeric SET k = 1.000 WHERE k = 1;                          -- equal key, other spelling
UPDATE chg.key_numeric SET label = 'upd' WHERE k = 9007199254740993;       -- its neighbour must stay
DELETE FROM chg.key_numeric WHERE k = 'NaN' OR k = 0;
UPDATE chg.key_double SET k = '-0' WHERE k = 0;                            -- equal key, other bits
UPDATE chg.key_double SET label = 'upd' WHERE k = 0.30000000000000004;
DELETE FROM chg.key_double WHERE k = 'NaN';
UPDATE chg.key_bytea SET label = 'upd' WHERE k IN ('\x', '\x0000');
DELETE FROM chg.key_bytea WHERE k = '\x00';
UPDATE chg.key_timestamptz SET label = 'upd' WHERE k IN ('infinity', '2024-11-03 01:30:00 EST', '0044-03-15 12:00:00+00 BC');
DELETE FROM chg.key_timestamptz WHERE k IN ('-infinity', '2024-11-03 01:30:00 EDT');
UPDATE chg.key_enum SET label = 'upd' WHERE k IN ('', 'it''s');
UPDATE chg.key_enum SET k = 'comma,comma' WHERE k = 'with space';
DELETE FROM chg.key_enum WHERE k = 'NULL';
UPDATE chg.key_array SET label = 'upd' WHERE k = '{NULL}' OR k = '[0:1]={1,2}';
DELETE FROM chg.key_array WHERE k = '{}';

-- 3e. no key, replica identity FULL: one of several equal rows
UPDATE chg.nopk_full SET b = 'dup changed' WHERE ctid = (SELECT min(ctid) FROM chg.nopk_full WHERE a = 1);
DELETE FROM chg.nopk_full WHERE ctid = (SELECT min(ctid) FROM chg.nopk_full WHERE b = 'dup');
DELETE FROM chg.nopk_full WHERE ctid = (SELECT min(ctid) FROM chg.nopk_full WHERE a IS NULL);   -- one of two rows of NULLs
UPDATE chg.nopk_full SET a = NULL WHERE a = 3;
INSERT INTO chg.nopk_full VALUES (1,'dup',1.0),(1,'dup',1.00);
-- rows that compare equal and are not the same: a target that looks the row up with = may change the wrong one
UPDATE chg.nopk_full_equal SET b = 'this one, 2.00 / -0' WHERE c::text = '2.00';
INSERT INTO chg.nopk_insert_only VALUES (1,'a'),(2,NULL);

-- =====================================================================================
-- 4. Statements
-- =====================================================================================
UPDATE chg.multi_row SET v = v * 10 WHERE id % 2 = 0;
DELETE FROM chg.multi_row WHERE id BETWEEN 5 AND 8;
INSERT INTO chg.multi_row SELECT i,'generated',i FROM generate_series(101,110) i;
UPDATE chg.multi_row SET v = v;                                            -- no-op on every row
UPDATE chg.multi_row SET v = NULL WHERE id = 101;
UPDATE chg.multi_row SET v = 7 WHERE id = 101;                             -- NULL to a value
BEGIN;                                                                     -- one row, many times, in one transaction
INSERT INTO chg.multi_row VALUES (200,'a',0);
UPDATE chg.multi_row SET v = 1 WHERE id = 200;
UPDATE chg.multi_row SET v = 2 WHERE id = 200;
DELETE FROM chg.multi_row WHERE id = 200;
INSERT INTO chg.multi_row VALUES (200,'b',3);
UPDATE chg.multi_row SET v = 4 WHERE id = 200;
COMMIT;
WITH gone AS (DELETE FROM chg.multi_row WHERE id BETWEEN 102 AND 104 RETURNING *) INSERT INTO chg.multi_row SELECT id + 1000, 'moved', v FROM gone;
DELETE FROM chg.multi_row WHERE id = 999999;                               -- touches nothing: an empty transaction
INSERT INTO chg.upsert VALUES (1,'one again',10),(4,'four',4) ON CONFLICT (id) DO UPDATE SET label = EXCLUDED.label, v = chg.upsert.v + EXCLUDED.v;
INSERT INTO chg.upsert VALUES (2,'ignored',0),(5,'five',5) ON CONFLICT DO NOTHING;
MERGE INTO chg.upsert AS t USING (VALUES (1,'m1'),(3,'m3'),(6,'m6')) AS s(id, label) ON t.id = s.id
  WHEN MATCHED AND s.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET label = s.label WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.label, 6);
-- COPY writes many rows in one WAL record
COPY chg.copied (id, label, v) FROM stdin;
10	copy	plain
11	copy	\N
12	copy	
13	copy	tab\there, newline\nhere, backslash\\ and \\N
14	copy	é表😀
\.
BEGIN;
TRUNCATE chg.copied_csv;
COPY chg.copied_csv FROM stdin WITH (FORMAT csv);
20,copy csv,"a,""b"""
21,copy csv,
22,copy csv,""
\.
COMMIT;

-- =====================================================================================
-- 5. Transactions
-- =====================================================================================
-- 5a. savepoints
BEGIN;
INSERT INTO chg.savepoints VALUES (10,'kept',1);
SAVEPOINT a;
INSERT INTO chg.savepoints VALUES (11,'rolled back',2);
UPDATE chg.savepoints SET v = 99 WHERE id = 1;
SAVEPOINT b;
DELETE FROM chg.savepoints WHERE id = 10;
ROLLBACK TO a;
INSERT INTO chg.savepoints VALUES (11,'kept, key reused after rollback to a savepoint',3);
SAVEPOINT c;
UPDATE chg.savepoints SET v = 4 WHERE id = 11;
RELEASE c;
COMMIT;
-- 5b. 200 subtransactions, every third one rolled back
DO $$ BEGIN FOR i IN 1..200 LOOP BEGIN
  INSERT INTO chg.savepoints VALUES (1000 + i, 'subtransaction', i);
  IF i % 3 = 0 THEN RAISE EXCEPTION 'roll back this one'; END IF;
EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END $$;
DELETE FROM chg.savepoints WHERE id > 1010;
-- 5c. aborted transactions: nothing of them may appear
BEGIN;
INSERT INTO chg.aborted VALUES (2,'must not appear','x');
UPDATE chg.aborted SET v = 'must not appear' WHERE id = 1;
ROLLBACK;
BEGIN;
DELETE FROM chg.aborted;
INSERT INTO chg.aborted SELECT i,'must not appear',repeat('z',5000) FROM generate_series(10,500) i;
ROLLBACK;
BEGIN;
TRUNCATE chg.aborted;
ALTER TABLE chg.aborted ADD COLUMN ghost int;
INSERT INTO chg.aborted VALUES (3,'must not appear','x',1);
ROLLBACK;
DO $$ BEGIN                                                                -- one command, three transactions: the middle one aborts
  INSERT INTO chg.aborted VALUES (4,'first of three','y'); COMMIT;
  INSERT INTO chg.aborted VALUES (6,'must not appear','x'); ROLLBACK;
  INSERT INTO chg.aborted VALUES (7,'third of three','y'); COMMIT;
END $$;
INSERT INTO chg.aborted VALUES (5,'after the aborted ones','y');

-- 5d. two interleaved transactions in two sessions. A (this session) writes first, B commits first.
\if :{?second_session}
\else
  \set second_session ''
\endif
SELECT set_config('corpus.second_session', :'second_session', false) AS ignored, NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'dblink') AS made_dblink \gset
DO $$
DECLARE c text := current_setting('corpus.second_session'); d text;
BEGIN
  IF c = '' THEN
    d := btrim(split_part(current_setting('unix_socket_directories'), ',', 1));
    c := format('host=%s port=%s dbname=''%s'' user=''%s''', CASE WHEN d = '' THEN '127.0.0.1' ELSE d END, current_setting('port'),
      replace(replace(current_database(), '\', '\\'), '''', '\'''), replace(replace(session_user, '\', '\\'), '''', '\'''));
  END IF;
  CREATE EXTENSION IF NOT EXISTS dblink SCHEMA public;
  PERFORM public.dblink_connect('corpus_b', c);
  PERFORM set_config('corpus.have_second', 'true', false);
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'no second session (%): the interleaved transactions run one after the other', SQLERRM;
  PERFORM set_config('corpus.have_second', 'false', false);
END $$;
SELECT current_setting('corpus.have_second') AS have_second \gset
\if :have_second
  BEGIN;
  UPDATE chg.interleaved SET v = v + 1 WHERE id = 1;                                                            -- A
  DO $$ BEGIN PERFORM public.dblink_exec('corpus_b', 'BEGIN'); PERFORM public.dblink_exec('corpus_b', 'INSERT INTO chg.interleaved VALUES (10,''B, commits first'',1)'); END $$;
  INSERT INTO chg.interleaved VALUES (20,'A, commits last',1);                                                  -- A
  DO $$ BEGIN PERFORM public.dblink_exec('corpus_b', 'UPDATE chg.interleaved SET v = v + 1 WHERE id = 2'); END $$;
  DELETE FROM chg.interleaved WHERE id = 20;                                                                    -- A
  DO $$ BEGIN PERFORM public.dblink_exec('corpus_b', 'COMMIT'); END $$;
  UPDATE chg.interleaved SET v = v * 10, label = 'A saw B' WHERE id IN (2, 10);                                 -- A, on rows that B has committed since
  INSERT INTO chg.interleaved VALUES (21,'A, after B has committed',2);
  COMMIT;
  -- the second transaction starts inside the first and is rolled back
  BEGIN;
  INSERT INTO chg.interleaved VALUES (30,'A, kept',0);
  DO $$ BEGIN PERFORM public.dblink_exec('corpus_b', 'BEGIN'); PERFORM public.dblink_exec('corpus_b', 'INSERT INTO chg.interleaved VALUES (31,''B, must not appear'',0)'); END $$;
  INSERT INTO chg.interleaved VALUES (32,'A, kept',0);
  COMMIT;
  DO $$ BEGIN PERFORM public.dblink_exec('corpus_b', 'ROLLBACK'); END $$;
  DO $$ BEGIN PERFORM public.dblink_disconnect('corpus_b'); END $$;
\else
  BEGIN;
  INSERT INTO chg.interleaved VALUES (10,'B, commits first',1);
  UPDATE chg.interleaved SET v = v + 1 WHERE id = 2;
  COMMIT;
  BEGIN;
  UPDATE chg.interleaved SET v = v + 1 WHERE id = 1;
  INSERT INTO chg.interleaved VALUES (20,'A, commits last',1);
  DELETE FROM chg.interleaved WHERE id = 20;
  UPDATE chg.interleaved SET v = v * 10, label = 'A saw B' WHERE id IN (2, 10);
  INSERT INTO chg.interleaved VALUES (21,'A, after B has committed',2);
  COMMIT;
  BEGIN;
  INSERT INTO chg.interleaved VALUES (30,'A, kept',0);
  INSERT INTO chg.interleaved VALUES (32,'A, kept',0);
  COMMIT;
  BEGIN;
  INSERT INTO chg.interleaved VALUES (31,'B, must not appear',0);
  ROLLBACK;
\endif
\if :made_dblink
  DROP EXTENSION IF EXISTS dblink;
\endif

-- 5e. a transaction of 60,000 row changes, and one as large that is rolled back
BEGIN;
INSERT INTO chg.big_txn SELECT i,'big',i FROM generate_series(2,20001) i;
UPDATE chg.big_txn SET v = -v WHERE id > 1;
DELETE FROM chg.big_txn WHERE id BETWEEN 12 AND 20001;
COMMIT;
BEGIN;
INSERT INTO chg.big_txn SELECT i,'must not appear',i FROM generate_series(50001,70000) i;
DELETE FROM chg.big_txn WHERE id < 50001;
ROLLBACK;
INSERT INTO chg.big_txn VALUES (100,'after',0);

-- 5f. logical decoding messages between rows: to be skipped (or passed on), not to be choked on
DO $$ BEGIN
  PERFORM pg_logical_emit_message(false, 'corpus', 'not transactional');
  PERFORM pg_logical_emit_message(true, 'corpus', 'transactional');
  PERFORM pg_logical_emit_message(true, 'corpus', '\x00ff'::bytea);
END $$;

-- =====================================================================================
-- 6. Two-phase commit (see the head of the file)
-- =====================================================================================
SELECT current_setting('max_prepared_transactions')::int > 0 AS can_prepare \gset
\if :can_prepare
  BEGIN;
  INSERT INTO chg.two_phase VALUES (2,'prepared, committed later');
  PREPARE TRANSACTION 'corpus prepared ''1''';
  INSERT INTO chg.two_phase VALUES (3,'committed between');
  COMMIT PREPARED 'corpus prepared ''1''';
  BEGIN;
  INSERT INTO chg.two_phase VALUES (4,'prepared, rolled back: must not appear');
  UPDATE chg.two_phase SET label = 'must not appear' WHERE id = 1;
  PREPARE TRANSACTION 'corpus prepared 2';
  ROLLBACK PREPARED 'corpus prepared 2';
\else
  INSERT INTO chg.two_phase VALUES (3,'committed between');
  INSERT INTO chg.two_phase VALUES (2,'prepared, committed later');
\endif
INSERT INTO chg.two_phase VALUES (5,'after');

-- =====================================================================================
-- 7. TRUNCATE, foreign keys, partitions, inheritance
-- =====================================================================================
TRUNCATE chg.trunc_b;
INSERT INTO chg.trunc_b VALUES (3,'after the first truncate',1);
TRUNCATE chg.trunc_a CASCADE;                                              -- takes trunc_b with it: one message, two relations
INSERT INTO chg.trunc_a VALUES (10,'after truncate');
INSERT INTO chg.trunc_b VALUES (10,'after truncate',10);
BEGIN;
INSERT INTO chg.trunc_c VALUES (3,'gone with the truncate below');
TRUNCATE chg.trunc_c, chg.trunc_d;
INSERT INTO chg.trunc_c VALUES (4,'after truncate, same transaction');
COMMIT;
INSERT INTO chg.trunc_d VALUES (2,'after truncate');
BEGIN; TRUNCATE chg.trunc_c; ROLLBACK;                                     -- must not appear
TRUNCATE chg.trunc_identity RESTART IDENTITY;
INSERT INTO chg.trunc_identity (label) VALUES ('id 1 again');
TRUNCATE chg.part_trunc;                                                   -- of the root
INSERT INTO chg.part_trunc SELECT i,'after truncate' FROM generate_series(1,4) i;

DELETE FROM chg.fk_parent WHERE id = 1;                                    -- cascades are in the WAL as row changes
UPDATE chg.fk_parent SET id = 20 WHERE id = 2;

INSERT INTO chg.part VALUES ('north',12,'cdc',10),('south',2,'cdc',20),('east',2,'cdc',30),('west',2,'cdc, to the default partition',40);
INSERT INTO chg.part_south (region, id, label, v) VALUES ('south',3,'cdc, into the leaf',21);
UPDATE chg.part SET v = v + 1 WHERE id = 1;
UPDATE chg.part SET region = 'south' WHERE region = 'north' AND id = 12;
UPDATE chg.part SET region = 'south', id = 100 WHERE region = 'north' AND id = 1;   -- moves between leaves: a delete and an insert in the WAL
UPDATE chg.part SET id = 250 WHERE region = 'east' AND id = 2;             -- moves between sub-partitions
UPDATE chg.part SET region = 'nowhere' WHERE region = 'west';              -- stays in the default partition
UPDATE chg.part SET label = 'moved there and back', region = 'north' WHERE region = 'elsewhere';
UPDATE chg.part SET region = 'elsewhere' WHERE label = 'moved there and back';
DELETE FROM chg.part WHERE region = 'east' AND id = 150;
CREATE TABLE chg.part_up PARTITION OF chg.part FOR VALUES IN ('up');       -- a partition made while replication runs
INSERT INTO chg.part VALUES ('up',1,'cdc, into a new partition',50);
UPDATE chg.part SET region = 'up' WHERE region = 'south' AND id = 3;
UPDATE chg.inherit_parent SET label = label || ' (upd)';                   -- reaches the child's row, under the child's name
INSERT INTO chg.inherit_child VALUES (3,'child','y');
INSERT INTO chg.inherit_parent VALUES (3,'parent, same key as a child row');
DELETE FROM chg.inherit_parent WHERE id = 2;

-- =====================================================================================
-- 8. DDL between rows. The logical stream carries no DDL: a Relation message before the next row tells of new columns and types.
-- =====================================================================================
-- 8a. columns added, filled, dropped, renamed, added again under an old name
INSERT INTO chg.alter_columns VALUES (2,'old shape',2,'drop me','rename me');
ALTER TABLE chg.alter_columns ADD COLUMN added int;
INSERT INTO chg.alter_columns VALUES (3,'after ADD COLUMN',3,'drop me','rename me',33);
UPDATE chg.alter_columns SET added = 11 WHERE id = 1;
ALTER TABLE chg.alter_columns ADD COLUMN filled text NOT NULL DEFAULT 'filled in, no row event';
INSERT INTO chg.alter_columns VALUES (4,'after ADD COLUMN DEFAULT',4,'drop me','rename me',44,'given');
ALTER TABLE chg.alter_columns DROP COLUMN to_drop;
INSERT INTO chg.alter_columns VALUES (5,'after DROP COLUMN',5,'rename me',55,'given');
ALTER TABLE chg.alter_columns RENAME COLUMN to_rename TO "Renamed Column";
INSERT INTO chg.alter_columns (id, label, "Renamed Column") VALUES (6,'after RENAME COLUMN','renamed');
UPDATE chg.alter_columns SET "Renamed Column" = 'set under the new name' WHERE id = 2;
ALTER TABLE chg.alter_columns ADD COLUMN to_drop int;
INSERT INTO chg.alter_columns (id, label, to_drop) VALUES (7,'a dropped name comes back with another type',77);
DELETE FROM chg.alter_columns WHERE id = 3;

-- 8b. types; each rewrites the table without row events
INSERT INTO chg.alter_type VALUES (2,'old types',1,'1','a',0.01,'2024-01-01 00:00:00');
ALTER TABLE chg.alter_type ALTER COLUMN v TYPE bigint;
INSERT INTO chg.alter_type VALUES (3,'v is bigint',9007199254740993,'3','b',3,'2024-01-01 00:00:00');
ALTER TABLE chg.alter_type ALTER COLUMN v_txt TYPE int USING v_txt::int * 10;
INSERT INTO chg.alter_type VALUES (4,'v_txt is int',4,4,'c',4,'2024-01-01 00:00:00');
ALTER TABLE chg.alter_type ALTER COLUMN v_len TYPE text;
INSERT INTO chg.alter_type VALUES (5,'v_len is text',5,5,'longer than five',5,'2024-01-01 00:00:00');
ALTER TABLE chg.alter_type ALTER COLUMN v_num TYPE numeric(12,4);
INSERT INTO chg.alter_type VALUES (6,'v_num has four decimals',6,6,'d',12345678.1234,'2024-01-01 00:00:00');
ALTER TABLE chg.alter_type ALTER COLUMN v_ts TYPE timestamptz USING v_ts AT TIME ZONE 'UTC';
INSERT INTO chg.alter_type VALUES (7,'v_ts has a zone',7,7,'e',7,'2024-01-01 00:00:00+05:30');
UPDATE chg.alter_type SET label = 'upd' WHERE id = 1;

-- 8c. columns whose values the table gets from the ALTER itself
ALTER TABLE chg.alter_default ADD COLUMN n serial;
INSERT INTO chg.alter_default VALUES (2,'n from a sequence');
ALTER TABLE chg.alter_default ADD COLUMN g int GENERATED ALWAYS AS (id * 2) STORED;
INSERT INTO chg.alter_default VALUES (3,'g is generated');
ALTER TABLE chg.alter_default ADD COLUMN at timestamptz DEFAULT '2024-01-02 03:04:05.6+00';
ALTER TABLE chg.alter_default ALTER COLUMN at SET DEFAULT 'infinity';
INSERT INTO chg.alter_default (id, label) VALUES (4,'the default changed after ADD COLUMN');
ALTER TABLE chg.alter_default ALTER COLUMN label SET NOT NULL, ALTER COLUMN at DROP DEFAULT;
INSERT INTO chg.alter_default (id, label) VALUES (5,'no default');

-- 8d. DDL and rows in one transaction, and DDL that is rolled back
BEGIN;
INSERT INTO chg.alter_same_txn VALUES (2,'before ALTER');
ALTER TABLE chg.alter_same_txn ADD COLUMN x int;
INSERT INTO chg.alter_same_txn VALUES (3,'after ADD',3);
ALTER TABLE chg.alter_same_txn RENAME COLUMN x TO y;
UPDATE chg.alter_same_txn SET y = 2 WHERE id = 2;
ALTER TABLE chg.alter_same_txn ADD COLUMN z text, DROP COLUMN label;
INSERT INTO chg.alter_same_txn VALUES (4,4,'after DROP');
COMMIT;
BEGIN;
ALTER TABLE chg.alter_same_txn ADD COLUMN ghost int;
INSERT INTO chg.alter_same_txn VALUES (5,5,'must not appear',5);
ROLLBACK;
INSERT INTO chg.alter_same_txn VALUES (6,6,'after the rolled back DDL');

-- 8e. another primary key
ALTER TABLE chg.alter_pk DROP CONSTRAINT alter_pk_pkey, ADD PRIMARY KEY (code);
UPDATE chg.alter_pk SET label = 'found by the new key' WHERE code = 'c1';
INSERT INTO chg.alter_pk VALUES (1,'same id, other code','c3');
UPDATE chg.alter_pk SET code = 'c22' WHERE code = 'c2';
DELETE FROM chg.alter_pk WHERE code = 'c3';

-- 8f. enum: a value added in the middle, a value renamed (stored rows change their text without row events)
ALTER TYPE chg.evolving ADD VALUE 'new, between' AFTER 'old one';
INSERT INTO chg.alter_enum VALUES (3,'added value','new, between');
ALTER TYPE chg.evolving RENAME VALUE 'old two' TO 'renamed "two"';
INSERT INTO chg.alter_enum VALUES (4,'renamed value','renamed "two"');

-- 8g. two columns of one type exchange their names
BEGIN;
ALTER TABLE chg.alter_swap RENAME COLUMN a TO tmp;
ALTER TABLE chg.alter_swap RENAME COLUMN b TO a;
ALTER TABLE chg.alter_swap RENAME COLUMN tmp TO b;
COMMIT;
INSERT INTO chg.alter_swap (id, label, a, b) VALUES (2,'after the exchange','into a','into b');

-- 8h. tables renamed, moved, made and dropped
INSERT INTO chg.rename_table_old VALUES (2,'old name');
ALTER TABLE chg.rename_table_old RENAME TO rename_table_new;
INSERT INTO chg.rename_table_new VALUES (3,'new name');
CREATE TABLE chg.rename_table_old (id int PRIMARY KEY, other numeric(4,1));   -- the old name is taken again, by another shape
INSERT INTO chg.rename_table_old VALUES (1,2.5);
ALTER TABLE chg.move_schema SET SCHEMA "Odd Schema";
INSERT INTO "Odd Schema".move_schema VALUES (2,'in the other schema');
INSERT INTO chg.dropped_later VALUES (2,'then dropped');
DROP TABLE chg.dropped_later;
CREATE TABLE chg.created_mid (id int PRIMARY KEY, label text, v numeric(10,3));
INSERT INTO chg.created_mid VALUES (1,'table made while replication runs',1.5);
UPDATE chg.created_mid SET v = 2 WHERE id = 1;
CREATE TABLE chg.created_as AS SELECT i AS id, 'row ' || i AS label FROM generate_series(1,3) i;
ALTER TABLE chg.created_as ADD PRIMARY KEY (id);

-- 8i. rewrites that must not show up as row changes
UPDATE chg.rewritten SET v = v || ' upd' WHERE id <= 10;
VACUUM (FULL) chg.rewritten;
UPDATE chg.rewritten SET v = v || ' after VACUUM FULL' WHERE id = 1;
CLUSTER chg.rewritten USING rewritten_pkey;
ALTER TABLE chg.rewritten ALTER COLUMN v TYPE varchar(100);
REINDEX TABLE chg.rewritten;
DELETE FROM chg.rewritten WHERE id > 45;

-- last row of the run: when it has arrived, everything before it has
INSERT INTO chg.multi_row VALUES (9999,'end of postgres-changes.sql',0);

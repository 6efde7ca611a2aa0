package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// TestAQueryIsReadLikeATable: its rows come once, and one that commits late is not lost.
func TestAQueryIsReadLikeATable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, column, value string }{
		{"by a time", "timestamptz", "clock_timestamp()"},
		{"by a number", "bigint", "nextval('s')"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newExtractHarness(t, "public.o", "c", "CREATE SEQUENCE s", "CREATE TABLE o (id int PRIMARY KEY, who int NOT NULL, c "+c.column+" NOT NULL)",
				"CREATE TABLE w (id int PRIMARY KEY, name text)", "INSERT INTO w VALUES (1, 'ann'), (2, 'bob')",
				"INSERT INTO o SELECT n, 1, "+c.value+" FROM generate_series(1, 10) n")
			h.config.Tables = []connectors.TableSpec{{Name: "public.o", Cursor: "c", Key: []string{"id"}, Where: "id <> 4",
				Query: "SELECT o.id, w.name, o.c FROM public.o JOIN public.w ON w.id = o.who"}}
			h.config.Settle = 0
			h.env.Limits.BatchRows = 3
			all := ""
			runUntil := func(want string) {
				t.Helper()
				deadline := time.Now().Add(patience)
				for !strings.Contains(all, want) {
					if time.Now().After(deadline) {
						t.Fatalf("%s did not come: %s", want, all)
					}
					all += h.extract() + " | "
				}
			}
			runUntil("public.o -> [10 ann")
			late, err := pgx.Connect(context.Background(), h.dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer late.Close(context.Background())
			tx, err := late.Begin(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(context.Background(), "INSERT INTO public.o VALUES (11, 2, "+c.value+")"); err != nil {
				t.Fatal(err)
			}
			h.exec("INSERT INTO o VALUES (12, 2, " + c.value + ")")
			all += h.extract() + " | " + h.extract() + " | "
			if err := tx.Commit(context.Background()); err != nil {
				t.Fatal(err)
			}
			runUntil("public.o -> [12 bob")
			runUntil("public.o -> [11 bob")
			for _, id := range []string{"1", "2", "3", "5", "9", "10", "11", "12"} {
				if n := strings.Count(all, "-> ["+id+" "); n != 1 {
					t.Errorf("row %s came %d times: %s", id, n, all)
				}
			}
			if strings.Contains(all, "-> [4 ") {
				t.Error("where was not heeded")
			}
		})
	}
}

package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// as makes the source log in as another user.
func (h *harness) as(user string) {
	h.config.DSN = strings.Replace(h.dsn, "postgres@", user+"@", 1)
}

func (h *harness) wantFatal(what string, words ...string) {
	h.t.Helper()
	err := h.tryOpen()
	if !errors.Is(err, connectors.ErrFatal) {
		h.t.Fatalf("%s: %v, want an error for good", what, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			h.t.Errorf("%s: %q does not say %q", what, err, word)
		}
	}
}

func TestMissingRightsNameTheRemedy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t", `CREATE TABLE t (id int PRIMARY KEY)`, `INSERT INTO t VALUES (1)`)
	plain, capture := h.name+"_plain", h.name+"_cdc"
	h.exec(`CREATE ROLE `+ident(plain)+` LOGIN`, `CREATE ROLE `+ident(capture)+` LOGIN REPLICATION`)
	t.Cleanup(func() {
		h.exec(`DROP OWNED BY `+ident(plain)+`, `+ident(capture), `DROP ROLE `+ident(plain)+`, `+ident(capture))
	})
	h.as(plain)
	h.wantFatal("no right to read", "GRANT SELECT ON")
	h.exec(`GRANT SELECT ON t TO ` + ident(plain) + `, ` + ident(capture))
	h.wantFatal("no right to publish", "CREATE PUBLICATION", "owner")
	h.as(capture)
	h.wantFatal("no right to publish", "CREATE PUBLICATION", "owner")
	h.exec(`CREATE PUBLICATION ` + ident(h.slot()) + ` FOR TABLE t WITH (publish_via_partition_root = true)`)
	h.as(plain)
	h.wantFatal("no right to replicate", "ALTER ROLE", "REPLICATION")
	h.as(capture)
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO t VALUES (2)`)
	h.open()
	h.untilCount(2)
	h.close()
	h.exec(`ALTER TABLE t ENABLE ROW LEVEL SECURITY`)
	h.wantFatal("rows hidden by a policy", "row level security", "BYPASSRLS")
}

func TestRowOverTheLimitIsRefusedByName(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"a little": 200_000, "by far": 5_000_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, "public.large", `CREATE TABLE large (id int PRIMARY KEY, v text)`)
			h.env.Limits.RowBytes = 100_000
			h.open()
			h.catchUp()
			if _, err := h.conn.Exec(t.Context(), `INSERT INTO large VALUES (1, repeat('x', $1::int))`, size); err != nil {
				t.Fatal(err)
			}
			want := func(phase string) {
				t.Helper()
				for {
					_, err := h.read()
					if err == nil {
						continue
					}
					if !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), "table public.large") {
						t.Errorf("%s: %v", phase, err)
					}
					return
				}
			}
			want("stream")
			h.mark, h.config.Snapshot = nil, snapshotOnly
			h.open()
			want("snapshot")
		})
	}
}

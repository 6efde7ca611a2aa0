package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// check looks at rights, settings and tables, and changes nothing.
func check(ctx context.Context, config SourceConfig, env connectors.Env) ([]connectors.Finding, error) {
	config = config.named(env.Name)
	dial, err := newDialer(config, env.Name)
	if err != nil {
		return nil, err
	}
	c := &catalog{dial: dial, config: &config, types: map[uint32]*typeInfo{}, texts: map[typeRef]string{}}
	defer c.close(context.WithoutCancel(ctx))
	k := &checker{config: config, catalog: c}
	err = c.do(ctx, func(conn *pgx.Conn) (err error) {
		if k.server, err = loadServer(ctx, conn); err != nil {
			return err
		}
		c.database = k.server.database
		k.findings = append(k.findings, connectors.Finding{Severity: connectors.Info, Subject: "server",
			Problem: fmt.Sprintf("PostgreSQL %d.%d, database %s", k.server.version/10000, k.server.version%10000, k.server.database)})
		if config.Mode == modeTimestamp {
			return k.extracts(ctx, conn)
		}
		if config.Snapshot == snapshotOnly {
			return nil
		}
		if err := k.settings(ctx, conn); err != nil {
			return err
		}
		return k.slot(ctx, conn)
	})
	if errors.Is(err, connectors.ErrFatal) {
		k.fatal("server", strings.TrimSuffix(err.Error(), ": "+connectors.ErrFatal.Error()), "")
		return k.findings, nil
	}
	if err != nil {
		return nil, err
	}
	return k.findings, k.tables(ctx)
}

// checker collects findings.
type checker struct {
	config   SourceConfig
	catalog  *catalog
	server   *server
	findings []connectors.Finding
	hidden   bool // we do not see the transactions of others
	pub      publication
}

func (k *checker) fatal(subject, problem, remedy string) {
	k.findings = append(k.findings, connectors.Finding{Severity: connectors.Fatal, Subject: subject, Problem: problem, Remedy: remedy})
}

func (k *checker) warn(subject, problem, remedy string) {
	k.findings = append(k.findings, connectors.Finding{Severity: connectors.Warning, Subject: subject, Problem: problem, Remedy: remedy})
}

func (k *checker) info(subject, problem, remedy string) {
	k.findings = append(k.findings, connectors.Finding{Severity: connectors.Info, Subject: subject, Problem: problem, Remedy: remedy})
}

// settings looks at the server's settings and at our user.
func (k *checker) settings(ctx context.Context, conn *pgx.Conn) error {
	if k.server.walLevel != "logical" {
		k.fatal("wal_level", "is "+k.server.walLevel, "ALTER SYSTEM SET wal_level = logical, and restart the server")
	}
	var user string
	var replication, create bool
	var senders, usedSenders, slots, usedSlots int
	var keep int64
	err := conn.QueryRow(ctx, `SELECT current_user::text, rolreplication OR rolsuper OR EXISTS (SELECT FROM pg_roles g WHERE g.rolname = 'rds_replication' AND pg_has_role(current_user, g.oid, 'MEMBER')),
  has_database_privilege(current_database(), 'CREATE'), current_setting('max_wal_senders')::int, (SELECT count(*) FROM pg_stat_replication),
  current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots), (SELECT setting::int8 FROM pg_settings WHERE name = 'max_slot_wal_keep_size')
FROM pg_roles r WHERE rolname = current_user`).Scan(&user, &replication, &create, &senders, &usedSenders, &slots, &usedSlots, &keep)
	if err != nil {
		return fmt.Errorf("look at settings and rights: %w", err)
	}
	if !replication {
		k.fatal("user "+user, "may not replicate", "ALTER ROLE "+ident(user)+" REPLICATION")
	}
	if usedSenders >= senders {
		k.fatal("max_wal_senders", fmt.Sprintf("all %d are in use", senders), "raise max_wal_senders and restart the server, or end another replication client")
	}
	s, err := loadSlot(ctx, conn, k.config.Slot)
	if err != nil {
		return err
	}
	if !s.exists && usedSlots >= slots {
		k.fatal("max_replication_slots", fmt.Sprintf("all %d are in use", slots), "raise max_replication_slots and restart the server, or drop a slot that nobody uses: SELECT pg_drop_replication_slot(…)")
	}
	if keep < 0 {
		k.warn("max_slot_wal_keep_size", "has no limit: while this source does not run, the server keeps all WAL and its disk may fill",
			"set a limit that is larger than what is written during your longest outage")
	}
	if err := k.triggers(ctx, conn); err != nil {
		return err
	}
	p, err := loadPublication(ctx, conn, k.config.Publication)
	if err != nil {
		return err
	}
	k.pub = *p
	if !p.exists && !create {
		k.fatal("user "+user, "may not create the publication "+k.config.Publication, fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s, or let the tables' owner create it", ident(k.server.database), ident(user)))
	}
	return nil
}

// triggers looks at what ddl: capture and the setting protocol need.
func (k *checker) triggers(ctx context.Context, conn *pgx.Conn) error {
	if _, err := k.config.options(k.server.version); err != nil {
		k.fatal("protocol", strings.TrimSuffix(err.Error(), ": "+connectors.ErrFatal.Error()), "")
	}
	if k.config.DDL != ddlCapture {
		return nil
	}
	if k.server.version < messagesVersion {
		k.fatal("ddl", "capture needs PostgreSQL 14 or later", "set ddl: ignore")
		return nil
	}
	there, err := hasTriggers(ctx, conn)
	if err != nil || there {
		return err
	}
	var super bool
	if err := conn.QueryRow(ctx, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&super); err != nil {
		return fmt.Errorf("look at rights: %w", err)
	}
	if !super {
		k.fatal("ddl", "capture needs event triggers, which only a superuser can make", ddlScript())
	}
	return nil
}

// slot looks at a slot that is there.
func (k *checker) slot(ctx context.Context, conn *pgx.Conn) error {
	s, err := loadSlot(ctx, conn, k.config.Slot)
	if err != nil || !s.exists {
		return err
	}
	subject := "slot " + k.config.Slot
	switch {
	case s.lost:
		k.fatal(subject, "was invalidated: the WAL that it needs is removed", "take a fresh snapshot with trunkline resync")
	case s.plugin != plugin:
		k.fatal(subject, fmt.Sprintf("is of plugin %q, not %s", s.plugin, plugin), "name another slot with slot")
	case s.database != k.server.database:
		k.fatal(subject, fmt.Sprintf("belongs to database %q", s.database), "name another slot with slot")
	}
	return nil
}

// tables looks at every table that the configuration chooses.
func (k *checker) tables(ctx context.Context) error {
	list, err := k.catalog.relations(ctx)
	if err != nil {
		return err
	}
	streams := k.config.Snapshot != snapshotOnly && k.config.Mode == modeCDC
	list = slices.DeleteFunc(list, func(r *relation) bool { return r.spec.Query != "" }) // the query has the table's name
	queries, err := k.queries(ctx)
	if err != nil {
		return err
	}
	for _, r := range list {
		subject := "table " + r.full()
		if problem, remedy := r.problem(streams); problem != "" {
			k.fatal(subject, problem, remedy)
			continue
		}
		if streams && k.pub.splits(r) {
			problem, remedy := splitProblem(k.config.Publication)
			k.fatal(subject, problem, remedy)
			continue
		}
		if r.spec.Where != "" && k.server.version < 150000 && streams {
			k.fatal(subject, "where needs PostgreSQL 15 or later for changes", "remove where, or upgrade the server")
		}
		if err := k.where(ctx, r); err != nil {
			return err
		}
		if columns := r.left(); len(columns) > 0 {
			k.warn(subject, "generated columns of the key are left out, so it has no key: "+strings.Join(columns, ", "), "name key columns with key, under REPLICA IDENTITY FULL")
		}
		if k.config.Mode == modeTimestamp {
			if err := k.cursor(ctx, r); err != nil {
				return err
			}
			continue
		}
		if r.identity == 'f' && len(r.primary) == 0 && len(r.spec.Key) == 0 {
			k.warn(subject, "has no key: its changes are kept in order in one partition, and a target compares whole rows", "add a primary key")
		}
	}
	if streams {
		if err := k.unseen(ctx, slices.DeleteFunc(slices.Clone(list), func(r *relation) bool { problem, _ := r.problem(streams); return problem != "" })); err != nil {
			return err
		}
	}
	if len(list) == 0 && queries == 0 {
		k.fatal("tables", "no table of database "+k.server.database+" matches", "correct tables in the configuration, or grant USAGE on the schema")
	}
	for i := range k.config.Tables {
		spec := &k.config.Tables[i]
		found := spec.Query != ""
		for _, r := range list {
			found = found || spec.Matches(r.full())
		}
		if !found && len(list) > 0 {
			k.warn("tables", fmt.Sprintf("nothing matches %q", spec.Name), "correct it, or name the root of a partitioned table instead of a partition")
		}
	}
	return nil
}

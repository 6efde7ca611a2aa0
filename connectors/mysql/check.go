package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

func checkSource(decode connectors.Decode) (connectors.Check, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env) ([]connectors.Finding, error) {
		return check(ctx, config, env)
	}, nil
}

// checker collects findings.
type checker struct {
	config   SourceConfig
	db       *sql.DB
	server   *server
	findings []connectors.Finding
}

func (k *checker) fatal(subject, problem, remedy string) {
	k.findings = append(k.findings, connectors.Finding{Severity: connectors.Fatal, Subject: subject, Problem: problem, Remedy: remedy})
}

func (k *checker) warn(subject, problem, remedy string) {
	k.findings = append(k.findings, connectors.Finding{Severity: connectors.Warning, Subject: subject, Problem: problem, Remedy: remedy})
}

// check looks at rights, settings and tables, and changes nothing.
func check(ctx context.Context, config SourceConfig, env connectors.Env) ([]connectors.Finding, error) {
	e, err := config.address().endpoint()
	if err != nil {
		return nil, err
	}
	db, err := e.pool()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	k := &checker{config: config, db: db}
	if k.server, err = loadServer(ctx, db); err != nil {
		if errors.Is(err, connectors.ErrFatal) {
			k.fatal("server", strings.TrimSuffix(err.Error(), ": "+connectors.ErrFatal.Error()), "correct user and password, or grant the right")
			return k.findings, nil
		}
		return nil, err
	}
	k.findings = append(k.findings, connectors.Finding{Severity: connectors.Info, Subject: "server", Problem: k.server.version})
	switch {
	case config.Mode == modeTimestamp:
		if err := k.extracts(ctx); err != nil {
			return nil, err
		}
	case config.Snapshot != snapshotOnly:
		k.settings(config.serverID(env.Name))
		if err := k.rights(ctx); err != nil {
			return nil, err
		}
	}
	return k.findings, k.tables(ctx)
}

// extracts looks at what mode timestamp needs to see.
func (k *checker) extracts(ctx context.Context) error {
	var n int
	err := k.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.INNODB_TRX").Scan(&n)
	switch {
	case code(err) == errSpecificDenied:
		k.warn("our user", "may not see the transactions of others: rows are read when they are as old as settle, and what a longer transaction stamped is missed", "GRANT PROCESS ON *.* TO our user")
	case err != nil:
		return fmt.Errorf("ask for open transactions: %w", err)
	}
	return nil
}

// settings looks at what the server writes into its binary log.
func (k *checker) settings(serverID uint32) {
	s := k.server
	if !s.logBin {
		k.fatal("log_bin", "is off: there is no binary log to read", "set log_bin and restart the server")
		return
	}
	if s.format != "ROW" {
		k.fatal("binlog_format", "is "+s.format, "SET GLOBAL binlog_format = 'ROW', keep it in the server's configuration, and let the application connect anew")
	}
	if s.image != "" && s.image != "FULL" {
		k.warn("binlog_row_image", "is "+s.image+": columns that an image leaves out are absent from records", "SET GLOBAL binlog_row_image = 'FULL'")
	}
	if s.metadata != "FULL" {
		problem := "is " + s.metadata
		if s.metadata == "" {
			problem = "is not known to this server"
		}
		k.warn("binlog_row_metadata", problem+": what a table looked like is followed by its DDL, and where that cannot be understood the table stops", "SET GLOBAL binlog_row_metadata = 'FULL' where the server has it")
	}
	if s.id == serverID {
		k.fatal("server_id", "is ours too", "set server_id of the source to a number that no server and no replica has")
	}
	if s.id == 0 {
		k.fatal("server_id", "of the server is 0: it refuses replicas", "give the server a server_id")
	}
	switch {
	case k.config.GTID == gtidOn && !s.gtids:
		k.fatal("gtid_mode", "is off, and gtid of the source is on", "turn it on, or set gtid: auto")
	case !s.gtids:
		k.warn("gtid_mode", "is off: positions are of this server alone, and a replica that takes its place cannot go on from them", "turn gtid_mode on")
	}
}

// rights looks at what our user may do.
func (k *checker) rights(ctx context.Context) error {
	rows, err := k.db.QueryContext(ctx, "SHOW GRANTS")
	if err != nil {
		return fmt.Errorf("ask for our user's rights: %w", err)
	}
	defer rows.Close()
	var global string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return fmt.Errorf("ask for our user's rights: %w", err)
		}
		if rights, _, ok := strings.Cut(line, " ON *.* "); ok {
			global += strings.TrimPrefix(rights, "GRANT ") + ", "
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("ask for our user's rights: %w", err)
	}
	has := func(names ...string) bool {
		for _, right := range strings.Split(global, ",") {
			for _, n := range append(names, "ALL PRIVILEGES", "SUPER") {
				if strings.TrimSpace(right) == n {
					return true
				}
			}
		}
		return false
	}
	if !has("REPLICATION SLAVE", "REPLICATION REPLICA") {
		k.fatal("our user", "may not read the binary log", "GRANT REPLICATION SLAVE ON *.* TO our user")
	}
	if !has("REPLICATION CLIENT", "BINLOG MONITOR") {
		k.fatal("our user", "may not ask where the binary log is", "GRANT REPLICATION CLIENT ON *.* TO our user")
	}
	if !k.server.maria && k.config.Snapshot == snapshotInitial && !has("RELOAD") {
		k.fatal("our user", "may not take the global read lock that the snapshot needs for a moment", "GRANT RELOAD ON *.* TO our user, or set snapshot: never")
	}
	return nil
}

// tables looks at every table that the configuration chooses.
func (k *checker) tables(ctx context.Context) error {
	c := &catalog{db: k.db, config: &k.config, maria: k.server.maria}
	list, err := c.tables(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(t *foundTable) bool { return k.config.spec(t.name).Query != "" })
	for _, t := range list {
		subject := "table " + t.name.full()
		var one int
		err := k.db.QueryRowContext(ctx, "SELECT 1 FROM "+t.name.ident()+" LIMIT 1").Scan(&one)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			k.fatal(subject, "cannot be read: "+describe(err).Error(), "GRANT SELECT ON "+t.name.ident()+" TO our user")
		}
		spec := k.config.spec(t.name)
		for _, n := range append(append([]string{}, spec.Columns...), spec.Key...) {
			if t.def.column(n) < 0 {
				k.fatal(subject, fmt.Sprintf("has no column %q, which the configuration names", n), "correct columns and key of the table")
			}
		}
		if k.config.Mode == modeTimestamp {
			if err := k.extracted(ctx, t, spec); err != nil {
				return err
			}
			continue
		}
		if len(t.def.Key) == 0 && len(spec.Key) == 0 {
			k.warn(subject, "has no key: its changes are kept in order in one partition, and a target compares whole rows", "add a primary key")
		}
		if action := k.cascade(ctx, t.name); action != "" && k.config.Snapshot != snapshotOnly {
			k.warn(subject, "has a foreign key with "+action+": the rows that it changes are not in the binary log", "delete and update child rows in the application, or resync the table")
		}
		if !strings.EqualFold(t.engine, "InnoDB") && k.config.Snapshot == snapshotInitial {
			k.warn(subject, "is of the engine "+t.engine+", which has no consistent snapshot: what is written while the snapshot is read may be seen twice", "ALTER TABLE "+t.name.ident()+" ENGINE = InnoDB")
		}
	}
	queries, err := k.queries(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && queries == 0 {
		k.fatal("tables", "no table of the server matches, or our user may not see it", "correct tables in the configuration, or grant SELECT")
	}
	for i := range k.config.Tables {
		spec := &k.config.Tables[i]
		found := spec.Query != ""
		for _, t := range list {
			found = found || spec.Matches(t.name.full())
		}
		if !found && len(list) > 0 {
			k.warn("tables", fmt.Sprintf("nothing matches %q", spec.Name), "correct it; tables are named database.table")
		}
	}
	return nil
}

// queries looks at the queries that stand for tables, and returns how many there are.
func (k *checker) queries(ctx context.Context) (int, error) {
	e, err := k.config.address().endpoint()
	if err != nil {
		return 0, err
	}
	list, refused, err := k.config.queries(ctx, e)
	if err != nil {
		return 0, err
	}
	for _, f := range refused {
		k.fatal("table "+f.Subject, f.Problem, f.Remedy)
	}
	for _, t := range list {
		if err := k.extracted(ctx, t, k.config.spec(t.name)); err != nil {
			return 0, err
		}
	}
	return len(list) + len(refused), nil
}

// extracted looks at a table of mode timestamp: it tries its condition, without reading a row, and looks at its cursor.
func (k *checker) extracted(ctx context.Context, t *foundTable, spec *connectors.TableSpec) error {
	if spec.Where != "" {
		x := &extractTable{spec: spec}
		x.name = t.name
		var one int
		err := k.db.QueryRowContext(ctx, "SELECT 1 FROM "+x.from()+" WHERE ("+spec.Where+") LIMIT 0").Scan(&one)
		switch {
		case refuses(err):
			k.findings = append(k.findings, connectors.RefusedWhere(k.config.Tables, spec, "table "+t.name.full(), describe(err).Error()))
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("try the condition of table %s: %w", t.name.full(), settle(err))
		}
	}
	k.cursor(t, spec)
	return nil
}

// cursor looks at the column that a table is extracted by.
func (k *checker) cursor(t *foundTable, spec *connectors.TableSpec) {
	subject := "table " + t.name.full()
	shape, err := newShape(t.name, t.def, spec, &charsets{db: k.db})
	if err != nil {
		k.fatal(subject, err.Error(), "leave the column out with columns")
		return
	}
	x := &extractTable{spec: spec}
	x.name, x.shape = t.name, shape
	if problem := x.settle(); problem != "" {
		k.fatal(subject, problem, "correct cursor and key of the table")
		return
	}
	if !t.def.Columns[x.cursor].NotNull {
		k.warn(subject, "its cursor "+spec.Cursor+" can be NULL: changes of rows without one are not seen", "make the column NOT NULL; null_cursor says what the first extract does with them")
	}
	if form := shape.decoders[x.cursor].form; form == formDateTime || form == formDate {
		k.warn(subject, "its cursor "+spec.Cursor+" has no time zone: it is taken to be in the server's, and in the hour that a zone has twice a year rows can be missed", "use a TIMESTAMP")
	}
}

var cascadeOf = regexp.MustCompile(`FOREIGN KEY .*?(ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT))`)

// cascade returns the rule of a foreign key that changes rows below the binary log, empty when there is none. The
// catalog's own tables of foreign keys show nothing to a user who may only read.
func (k *checker) cascade(ctx context.Context, n tableName) string {
	var name, text string
	if k.db.QueryRowContext(ctx, "SHOW CREATE TABLE "+n.ident()).Scan(&name, &text) != nil {
		return ""
	}
	if m := cascadeOf.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

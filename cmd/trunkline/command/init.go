package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/config"
)

func (a *app) initCommand() *cobra.Command {
	var name, mode string
	c := &cobra.Command{
		Use: "init DSN", Short: "Ask a database what it has, and write a configuration with comments for it", Args: cobra.ExactArgs(1),
		Long: `Ask a database what it has, and write a configuration for it: its tables, the rights
to grant, and what would not work, each as a comment. The first sink writes files
below data/archive, so that the line runs at once. A file that is there is left alone.

  trunkline init postgres://user:password@host:5432/database
  trunkline init mysql://user:password@host:3306/database
  trunkline init shop.db`,
		RunE: func(c *cobra.Command, args []string) error {
			d, err := newDraft(args[0], name, mode)
			if err != nil {
				return err
			}
			return a.writeDraft(c.Context(), d)
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON for machines")
	c.Flags().StringVar(&name, "name", "", "name of the source (default: that of the database)")
	c.Flags().StringVar(&mode, "mode", "", "cdc or timestamp (default: cdc where the database has a log of changes)")
	return c
}

// draft is a configuration in the making.
type draft struct {
	name, kind, mode string
	shown            string      // the database, without a secret
	settings         [][2]string // of the connection
	variable         string      // of the environment, that holds the password; empty: there is none
	password         string
	offer            connectors.Offer
	findings         []connectors.Finding
}

var notInNames = regexp.MustCompile(`[^a-z0-9_]+`)

// newDraft takes a DSN apart. No error shows it: it may hold a password.
func newDraft(dsn, name, mode string) (*draft, error) {
	d := &draft{name: name, mode: mode}
	u, err := url.Parse(dsn)
	scheme := ""
	if err == nil {
		scheme = u.Scheme
	} else if before, _, found := strings.Cut(dsn, "://"); found {
		return nil, usagef("the DSN is not a valid URL: percent-encode special characters in its %s user and password", before)
	}
	var port string
	switch scheme {
	case "postgres", "postgresql":
		d.kind, port = "postgres", "5432"
	case "mysql", "mariadb":
		d.kind, port = "mysql", "3306"
	case "", "sqlite", "file":
		return d.file(strings.TrimPrefix(strings.TrimPrefix(dsn, scheme+"://"), scheme+":"))
	default:
		return nil, usagef("a database of type %s is not known; DSNs begin with postgres:// or mysql://, or are the path of an SQLite file", scheme)
	}
	database := strings.TrimPrefix(u.Path, "/")
	host := u.Hostname()
	if socket := u.Query().Get("host"); host == "" {
		host = socket
	}
	if host == "" || database == "" {
		return nil, usagef("the DSN names no host or no database; it looks like %s://user:password@host:%s/database", scheme, port)
	}
	d.settings = [][2]string{{"host", host}}
	if p := u.Port(); p != "" && p != port {
		d.settings = append(d.settings, [2]string{"port", p})
	}
	if user := u.User.Username(); user != "" {
		d.settings = append(d.settings, [2]string{"user", user})
	}
	d.named(database)
	if password, set := u.User.Password(); set {
		d.password, d.variable = password, strings.ToUpper(strings.ReplaceAll(d.name, "-", "_"))+"_PASSWORD"
		d.settings = append(d.settings, [2]string{"password", "${" + d.variable + "}"})
	}
	d.settings = append(d.settings, [2]string{"database", database})
	for _, key := range []string{"tls", "sslmode"} {
		if value := u.Query().Get(key); value != "" && value != "prefer" && value != "allow" {
			d.settings = append(d.settings, [2]string{"tls", value})
		}
	}
	d.shown = fmt.Sprintf("database %s at %s", database, host)
	if d.mode == "" {
		d.mode = "cdc"
	}
	return d, nil
}

// file is the draft for an SQLite file.
func (d *draft) file(path string) (*draft, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, usagef("there is no database file %s; DSNs begin with postgres:// or mysql://, or are the path of an SQLite file", path)
	}
	d.kind, d.mode, d.shown = "sqlite", "timestamp", path
	d.settings = [][2]string{{"path", path}}
	d.named(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	return d, nil
}

func (d *draft) named(database string) {
	if d.name == "" {
		d.name = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(database), "_"), "_")
	}
	if d.name == "" {
		d.name = "source"
	}
}

// writeDraft asks the database and writes the file.
func (a *app) writeDraft(ctx context.Context, d *draft) error {
	if _, err := os.Stat(a.file); !errors.Is(err, fs.ErrNotExist) {
		return usagef("%s is there already; name another file with -f", a.file)
	}
	if err := a.survey(ctx, d); err != nil {
		return fmt.Errorf("look at %s: %w", d.shown, err)
	}
	text := d.text()
	if _, err := config.Parse(a.file, []byte(text), a.registry, d.lookup); err != nil {
		return err
	}
	file, err := os.OpenFile(a.file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if _, err := file.WriteString(text); err != nil {
		return errors.Join(fmt.Errorf("write configuration: %w", err), file.Close())
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return a.printDraft(d)
}

// lookup is the environment of a configuration that is not written yet.
func (d *draft) lookup(name string) (string, bool) {
	if name == d.variable {
		return d.password, true
	}
	return "", false
}

// survey asks what there is, with every table chosen, and checks what of it would work.
func (a *app) survey(ctx context.Context, d *draft) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	env := connectors.NewEnv(d.name)
	// A cursor is asked for offline, and no table is known yet.
	first := *d
	if d.kind != "sqlite" {
		first.mode = "cdc"
	}
	source, hide, err := a.draftSource(&first, "    tables: ['*']\n")
	if err != nil {
		return err
	}
	if source.Survey == nil {
		return fmt.Errorf("a source of type %s cannot be asked", d.kind)
	}
	if d.offer, err = source.Survey(ctx, env); err != nil {
		return errors.New(hide(err.Error()))
	}
	if len(d.offer.Tables) == 0 {
		return errors.New("it has no tables that this user may read")
	}
	if source, hide, err = a.draftSource(d, d.tables(false)); err != nil {
		return err
	}
	found, err := source.Check(ctx, env)
	if err != nil {
		return errors.New(hide(err.Error()))
	}
	for _, f := range found {
		f.Problem, f.Remedy = hide(f.Problem), hide(f.Remedy)
		d.findings = append(d.findings, f)
	}
	return nil
}

// draftSource lets the connector read the settings as they will stand in the file.
func (a *app) draftSource(d *draft, tables string) (config.Source, func(string) string, error) {
	c, err := config.Parse(a.file, []byte("sources:\n"+d.source()+tables), a.registry, d.lookup)
	if err != nil {
		return config.Source{}, nil, err
	}
	return c.Sources[0], c.Secrets.Hide, nil
}

// source is the source without its tables.
func (d *draft) source() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s:\n    type: %s\n", d.name, d.kind)
	for _, s := range d.settings {
		fmt.Fprintf(&b, "    %s: %s\n", s[0], scalar(s[1]))
	}
	fmt.Fprintf(&b, "    mode: %s\n", d.mode)
	return b.String()
}

// scalar writes a text so that YAML reads it back as it is.
func scalar(text string) string {
	out, err := yaml.Marshal(text)
	if err != nil {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// problem is why a table would not work; empty if it would.
func (d *draft) problem(table string) (problem, remedy string) {
	for _, f := range d.findings {
		if f.Severity == connectors.Fatal && (f.Subject == "table "+table || f.Subject == table || f.Subject == "main."+table) {
			return f.Problem, f.Remedy
		}
	}
	return "", ""
}

// tables lists what is read, with what is known of each as a comment.
func (d *draft) tables(commented bool) string {
	var b strings.Builder
	b.WriteString("    tables:\n")
	for _, t := range d.offer.Tables {
		line := "      - " + scalar(t.Name)
		if d.mode == "timestamp" && len(t.Cursors) > 0 {
			line = fmt.Sprintf("      - {name: %s, cursor: %s}", scalar(t.Name), scalar(t.Cursors[0]))
		}
		problem, remedy := d.problem(t.Name)
		if d.mode == "timestamp" && len(t.Cursors) == 0 {
			problem, remedy = "no column that looks like a cursor", "name one that grows with every change: {name: …, cursor: …}"
		}
		if !commented {
			if problem == "" {
				b.WriteString(line + "\n")
			}
			continue
		}
		note := count(t.Rows) + " rows, no key"
		if len(t.Key) > 0 {
			note = count(t.Rows) + " rows, key " + strings.Join(t.Key, ", ")
		}
		if problem != "" {
			fmt.Fprintf(&b, "      # %s # left out: %s", strings.TrimSpace(line), oneLine(problem))
			if remedy != "" {
				b.WriteString("; " + oneLine(remedy))
			}
			b.WriteByte('\n')
			continue
		}
		fmt.Fprintf(&b, "%-44s # %s\n", line, oneLine(note))
	}
	return b.String()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// text is the whole file.
func (d *draft) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What %s has. Every key: docs/configuration.md.\n", d.shown)
	if todo := d.todo(); len(todo) > 0 {
		b.WriteString("#\n# Before it can run:\n")
		for _, line := range todo {
			b.WriteString("#   " + oneLine(line) + "\n")
		}
	}
	if len(d.offer.Grants) > 0 {
		b.WriteString("#\n# A user of its own, with the rights that a source needs and no others:\n")
		for _, g := range d.offer.Grants {
			b.WriteString("#   " + oneLine(g) + ";\n")
		}
	}
	b.WriteString("\nlog:\n  dir: data/log\n\nsources:\n" + d.source())
	if schemas := d.schemas(); d.mode == "cdc" && len(schemas) > 0 {
		b.WriteString("    # A glob takes tables that are made later too: tables: [" + strings.Join(schemas, ", ") + "]\n")
	}
	b.WriteString(d.tables(true))
	b.WriteString(`
sinks:
  archive:                 # every change as a line of JSON, to see it work
    type: file
    path: data/archive
    topics: ["*"]
`)
	fmt.Fprintf(&b, "  # warehouse:             # the same rows in another database; see docs/configuration.md\n  #   type: postgres\n  #   dsn: ${WAREHOUSE_DSN}\n  #   topics: [%q]\n", d.name+".*")
	return b.String()
}

// schemas are globs for all tables.
func (d *draft) schemas() []string {
	var out []string
	for _, t := range d.offer.Tables {
		if schema, _, found := strings.Cut(t.Name, "."); found && !slices.Contains(out, scalar(schema+".*")) {
			out = append(out, scalar(schema+".*"))
		}
	}
	return out
}

// todo is what the server or the user lacks.
func (d *draft) todo() []string {
	var out []string
	for _, f := range d.findings {
		if f.Severity != connectors.Fatal || slices.ContainsFunc(d.offer.Tables, func(t connectors.OfferedTable) bool {
			return f.Subject == "table "+t.Name || f.Subject == t.Name || f.Subject == "main."+t.Name
		}) {
			continue
		}
		line := f.Subject + " " + f.Problem
		if f.Remedy != "" {
			line += ": " + f.Remedy
		}
		out = append(out, line)
	}
	return out
}

// printDraft says what was written and what comes next.
func (a *app) printDraft(d *draft) error {
	left := 0
	for _, t := range d.offer.Tables {
		if problem, _ := d.problem(t.Name); problem != "" || d.mode == "timestamp" && len(t.Cursors) == 0 {
			left++
		}
	}
	if a.json {
		return a.printJSON(struct {
			File     string   `json:"file"`
			Source   string   `json:"source"`
			Mode     string   `json:"mode"`
			Tables   int      `json:"tables"`
			Left     int      `json:"left_out"`
			Todo     []string `json:"todo"`
			Password string   `json:"password_variable,omitempty"` // which the file does not hold
		}{a.file, d.name, d.mode, len(d.offer.Tables) - left, left, append([]string{}, d.todo()...), d.variable})
	}
	fmt.Fprintf(a.out, "wrote %s: source %s, mode %s, %d tables", a.file, d.name, d.mode, len(d.offer.Tables)-left)
	if left > 0 {
		fmt.Fprintf(a.out, ", %d left out with the reason beside each", left)
	}
	fmt.Fprintln(a.out)
	for _, line := range d.todo() {
		fmt.Fprintf(a.out, "to do: %s\n", oneLine(line))
	}
	file := ""
	if a.named {
		file = " -f " + a.file
	}
	if d.variable != "" {
		fmt.Fprintf(a.out, "next:  export %s=…   # the password, which the file does not hold\n", d.variable)
	}
	_, err := fmt.Fprintf(a.out, "next:  trunkline check --connect%s\nnext:  trunkline run%s\n", file, file)
	return err
}

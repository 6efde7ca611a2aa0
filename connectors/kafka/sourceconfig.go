package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
)

// Content says what a record is.
type Content string

// The contents.
const (
	Auto    Content = "auto"    // a change where it says so, else raw
	Changes Content = "changes" // a record of Trunkline's log or of Debezium, or a line of a sink of Trunkline
	Rows    Content = "rows"    // a JSON object that is a row
	Raw     Content = "raw"     // its parts: key, value, headers
)

const (
	stopAtBad = "stop"
	skipBad   = "skip"

	fromEarliest = "earliest"
	fromLatest   = "latest"

	noGroup = "off"
)

// SourceConfig is the settings of a source of type kafka.
type SourceConfig struct {
	Cluster           `yaml:",inline"`
	document.Settings `yaml:",inline"`

	Topics  []string      `yaml:"topics"`   // names or globs
	Exclude []string      `yaml:"exclude"`  // likewise, of those that are left out
	Content Content       `yaml:"content"`  // auto | changes | rows | raw; auto
	Table   string        `yaml:"table"`    // of rows and raw records, with {topic}; {topic}
	From    string        `yaml:"from"`     // earliest | latest: where a first start begins; earliest
	Group   string        `yaml:"group"`    // where offsets are written for those who watch the lag; trunkline- and the name of the source; off: nowhere
	Refresh time.Duration `yaml:"refresh"`  // how often new topics and partitions are looked for; 30s
	BadRows string        `yaml:"bad_rows"` // stop | skip; stop
}

func decodeSource(decode connectors.Decode) (*SourceConfig, error) {
	c := &SourceConfig{Content: Auto, Table: "{topic}", From: fromEarliest, Refresh: 30 * time.Second, BadRows: stopAtBad}
	return c, decode(c)
}

// Validate checks the settings.
func (c *SourceConfig) Validate() error {
	errs := []error{c.Cluster.validate(), c.Settings.Validate()}
	if len(c.Topics) == 0 || slices.Contains(c.Topics, "") {
		errs = append(errs, errors.New("topics is missing or has an empty name: a list of names or globs"))
	}
	if !slices.Contains([]Content{Auto, Changes, Rows, Raw}, c.Content) {
		errs = append(errs, errors.New("content is not one of auto, changes, rows, raw"))
	}
	if rest := strings.ReplaceAll(c.Table, "{topic}", ""); c.Table == "" || strings.ContainsAny(rest, "{}") {
		errs = append(errs, errors.New("table is not a name, in which {topic} can stand"))
	}
	if c.From != fromEarliest && c.From != fromLatest {
		errs = append(errs, errors.New("from is not one of earliest, latest"))
	}
	if c.BadRows != stopAtBad && c.BadRows != skipBad {
		errs = append(errs, errors.New("bad_rows is not one of stop, skip"))
	}
	if c.Refresh <= 0 {
		errs = append(errs, errors.New("refresh must be above 0"))
	}
	return errors.Join(errs...)
}

// takes reports a topic that the settings name.
func (c *SourceConfig) takes(topic string) bool {
	fits := func(pattern string) bool { return connectors.MatchName(pattern, topic) }
	return slices.ContainsFunc(c.Topics, fits) && !slices.ContainsFunc(c.Exclude, fits)
}

// list returns the topics that are taken and the numbers of their partitions.
func (c *SourceConfig) list(ctx context.Context, admin *kadm.Client) (map[string][]int32, error) {
	topics, err := admin.ListTopics(ctx) // without the cluster's own
	if err != nil {
		return nil, translate(err)
	}
	out := map[string][]int32{}
	for name, detail := range topics {
		if !c.takes(name) {
			continue
		}
		if detail.Err != nil {
			return nil, fmt.Errorf("topic %s: %w", name, translate(detail.Err))
		}
		out[name] = detail.Partitions.Numbers()
	}
	return out, nil
}

// checkSource looks whether the brokers answer, and whether there is something to read.
func checkSource(ctx context.Context, c *SourceConfig, _ connectors.Env) ([]connectors.Finding, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := c.list(ctx, admin)
	if err != nil {
		return nil, fmt.Errorf("look at kafka: %w", err)
	}
	if len(topics) == 0 {
		return []connectors.Finding{{
			Severity: connectors.Warning, Subject: "topics", Problem: "no topic that the user may see fits; one that is made later is taken up",
			Remedy: "correct topics, or let the user describe and read them",
		}}, nil
	}
	var out []connectors.Finding
	for name := range topics {
		if _, err := endsOf(ctx, admin, map[string][]int32{name: topics[name]}); err != nil {
			out = append(out, connectors.Finding{Severity: connectors.Fatal, Subject: name, Problem: err.Error(), Remedy: "let the user read the topic"})
		}
	}
	return out, nil
}

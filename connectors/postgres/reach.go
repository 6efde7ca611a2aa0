package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// reachError says in one line why no connection came about. The driver's own text has a line for every attempt, and
// attempts with and without TLS at the same address read alike.
type reachError struct {
	text string
	err  error
}

func (e *reachError) Error() string { return e.text }
func (e *reachError) Unwrap() error { return e.err }

// dialed is what the driver and the system put in front of the reason: the address twice and the host that was asked for.
var dialed = regexp.MustCompile(`^(\S+) \(([^)]*)\): (?:dial error: )?(?:dial (?:tcp|unix) \S+: )?(?:connect: )?`)

// reach shortens the error of a connection that did not come about.
func reach(err error) error {
	var failed *pgconn.ConnectError
	if !errors.As(err, &failed) || failed.Unwrap() == nil {
		return fmt.Errorf("connect: %w", err)
	}
	var reasons []string
	for line := range strings.Lines(failed.Unwrap().Error()) {
		line = dialed.ReplaceAllStringFunc(strings.TrimSpace(line), func(prefix string) string {
			part := dialed.FindStringSubmatch(prefix)
			if part[2] == "" || strings.HasPrefix(part[1], part[2]+":") || strings.HasPrefix(part[1], "["+part[2]+"]:") {
				return part[1] + ": "
			}
			return part[1] + " (" + part[2] + "): "
		})
		if line != "" && !slices.Contains(reasons, line) {
			reasons = append(reasons, line)
		}
	}
	return &reachError{text: "connect to " + strings.Join(reasons, "; "), err: err}
}

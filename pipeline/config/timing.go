package config

import (
	"fmt"
	"reflect"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/schedule"
)

// timing reads a connectors.Timing: an interval, or a schedule of cron.
func (d *decoder) timing(n *yaml.Node, v reflect.Value, path string) {
	const want = `an interval (10m) or a schedule ("30 2 * * *", @daily, CRON_TZ=Europe/Berlin before them)`
	if v.Type() != reflect.TypeFor[connectors.Timing]() {
		panic(fmt.Sprintf("decode %s into %s: unsupported type", path, v.Type()))
	}
	if n.Kind != yaml.ScalarNode || isEmpty(n) {
		d.fail(n.Line, path, fmt.Sprintf("expected %s, found %s", want, d.describe(n)))
		return
	}
	if interval, err := time.ParseDuration(n.Value); err == nil {
		if interval <= 0 {
			d.fail(n.Line, path, fmt.Sprintf("%s: an interval must be above 0", d.describe(n)))
		}
		v.Set(reflect.ValueOf(connectors.Every(interval)))
		return
	}
	parsed, err := schedule.Parse(n.Value)
	switch {
	case err != nil:
		d.fail(n.Line, path, fmt.Sprintf("%s: %v", d.describe(n), err))
	case n.Value == schedule.Off:
		d.fail(n.Line, path, fmt.Sprintf("expected %s, found %s", want, d.describe(n)))
	default:
		v.Set(reflect.ValueOf(parsed))
	}
}

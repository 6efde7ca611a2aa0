package codec

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// Envelope names how the records of a source are laid out.
type Envelope string

// The envelopes.
const (
	// Lossless is Debezium's envelope with values that are exact: the default, and what our own sinks read.
	Lossless Envelope = "lossless"
	// Debezium is what Debezium writes, with its conversions of values.
	Debezium Envelope = "debezium"
	// Flat is the row alone, as Debezium's ExtractNewRecordState gives it with deletes rewritten.
	Flat Envelope = "flat"
	// CloudEvents is structured CloudEvents JSON, as Debezium's converter gives it.
	CloudEvents Envelope = "cloudevents"
)

// Format is how the records of a source are laid out, under Debezium's names. All but Envelope are for those that are not
// Lossless.
type Format struct {
	Envelope    Envelope `yaml:"envelope"`
	Decimal     string   `yaml:"decimal.handling.mode"`         // precise | double | string; precise
	Time        string   `yaml:"time.precision.mode"`           // adaptive | adaptive_time_microseconds | connect | microseconds | nanoseconds | isostring; adaptive
	Binary      string   `yaml:"binary.handling.mode"`          // bytes | base64 | base64-url-safe | hex; bytes
	Interval    string   `yaml:"interval.handling.mode"`        // numeric | string; numeric
	Hstore      string   `yaml:"hstore.handling.mode"`          // json | map; json
	Unsigned    string   `yaml:"bigint.unsigned.handling.mode"` // long | precise; long
	Schemas     bool     `yaml:"schemas.enable"`                // true
	Tombstones  bool     `yaml:"tombstones.on.delete"`          // true
	Skipped     string   `yaml:"skipped.operations"`            // letters of operations, or none; t
	Unavailable string   `yaml:"unavailable.value.placeholder"` // what stands for a value that the change does not carry
	AddFields   []string `yaml:"add.fields"`                    // of envelope flat; op
}

// DefaultFormat is Debezium's defaults under our own envelope.
func DefaultFormat() Format {
	return Format{
		Envelope: Lossless, Decimal: "precise", Time: "adaptive", Binary: "bytes", Interval: "numeric", Hstore: "json", Unsigned: "long",
		Schemas: true, Tombstones: true, Skipped: "t", Unavailable: "__debezium_unavailable_value", AddFields: []string{"op"},
	}
}

// formatChoices are the settings that take one of a few words.
func (f *Format) choices() []formatChoice {
	envelope := string(f.Envelope)
	return []formatChoice{
		{"envelope", envelope, []string{string(Lossless), string(Debezium), string(Flat), string(CloudEvents)}},
		{"decimal.handling.mode", f.Decimal, []string{"precise", "double", "string"}},
		{"time.precision.mode", f.Time, []string{"adaptive", "adaptive_time_microseconds", "connect", "microseconds", "nanoseconds", "isostring"}},
		{"binary.handling.mode", f.Binary, []string{"bytes", "base64", "base64-url-safe", "hex"}},
		{"interval.handling.mode", f.Interval, []string{"numeric", "string"}},
		{"hstore.handling.mode", f.Hstore, []string{"json", "map"}},
		{"bigint.unsigned.handling.mode", f.Unsigned, []string{"long", "precise"}},
	}
}

type formatChoice struct {
	key, value string
	valid      []string
}

// Check reports what is not valid, each with its key.
func (f *Format) Check() error {
	var errs []error
	for _, c := range f.choices() {
		if !slices.Contains(c.valid, c.value) {
			errs = append(errs, fmt.Errorf("%s is not one of %s", c.key, strings.Join(c.valid, ", ")))
		}
	}
	if _, err := f.skips(); err != nil {
		errs = append(errs, err)
	}
	for _, name := range f.AddFields {
		if _, ok := addedFields[strings.TrimPrefix(name, "source.")]; !ok {
			errs = append(errs, fmt.Errorf("add.fields: %q is none of the fields of the envelope or of its source block", name))
		}
	}
	return errors.Join(errs...)
}

// changed names a setting that has no effect under our own envelope, empty if there is none.
func (f *Format) changed() string {
	d := DefaultFormat()
	before := d.choices()
	for i, c := range f.choices()[1:] {
		if c.value != before[i+1].value {
			return c.key
		}
	}
	switch {
	case f.Schemas != d.Schemas:
		return "schemas.enable"
	case f.Tombstones != d.Tombstones:
		return "tombstones.on.delete"
	case f.Skipped != d.Skipped:
		return "skipped.operations"
	case f.Unavailable != d.Unavailable:
		return "unavailable.value.placeholder"
	}
	return ""
}

// Validate is Check, and refuses settings that the envelope makes no use of.
func (f *Format) Validate() error {
	if err := f.Check(); err != nil {
		return err
	}
	if key := f.changed(); f.Envelope == Lossless && key != "" {
		return fmt.Errorf("%s is for envelope: debezium, flat or cloudevents; the default keeps every value as it is", key)
	}
	if f.Envelope != Flat && !slices.Equal(f.AddFields, DefaultFormat().AddFields) {
		return errors.New("add.fields is for envelope: flat")
	}
	return nil
}

// skips returns the operations that are left out.
func (f *Format) skips() (map[connectors.Op]bool, error) {
	out := map[connectors.Op]bool{}
	if f.Skipped == "none" || f.Skipped == "" {
		return out, nil
	}
	for _, letter := range strings.Split(f.Skipped, ",") {
		letter = strings.TrimSpace(letter)
		if !regexp.MustCompile(`^[cudt]$`).MatchString(letter) {
			return nil, errors.New("skipped.operations is not none, or letters of c, u, d, t with commas between them")
		}
		out[connectors.OpOf(letter[0])] = true
	}
	return out, nil
}

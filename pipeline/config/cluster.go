package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Cluster says which Kafka cluster holds the log, in place of the folder.
type Cluster struct {
	Brokers     []string `yaml:"brokers"`             // host:port; none: the embedded log
	TLS         string   `yaml:"tls"`                 // disable, require, verify-ca, verify-full; disable
	RootCert    string   `yaml:"sslrootcert"`         // a file; the certificates of the system
	Certificate string   `yaml:"sslcert"`             // a file, for brokers that ask who connects
	Key         string   `yaml:"sslkey"`              // a file
	SASL        *SASL    `yaml:"sasl"`                // none
	Replication int      `yaml:"replication"`         // of new topics; what the brokers are set to
	MinInSync   int      `yaml:"min_insync_replicas"` // of new topics; one less than replication
}

// SASL is how to log in to a cluster.
type SASL struct {
	Mechanism string `yaml:"mechanism"` // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
	User      string `yaml:"user"`
	Password  string `yaml:"password"`
}

var (
	mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
	tlsModes   = []string{"disable", "require", "verify-ca", "verify-full"}
)

// maxReplication is far above what anybody runs; a larger number is a slip of the finger.
const maxReplication = 100

// Address names the cluster: its brokers. It is empty for the embedded log.
func (c *Cluster) Address() string { return strings.Join(c.Brokers, ",") }

func (c *Cluster) validate() error {
	var errs []error
	for i, b := range c.Brokers {
		if err := checkAddress(b); err != nil {
			errs = append(errs, fmt.Errorf("brokers has entry %d, which %w", i+1, err))
		}
	}
	if len(c.Brokers) == 0 && (c.TLS != "" || c.SASL != nil || c.Replication != 0 || c.MinInSync != 0) {
		errs = append(errs, errors.New("brokers is missing: tls, sasl, replication and min_insync_replicas are for a cluster"))
	}
	if mode := cmp.Or(c.TLS, "disable"); !slices.Contains(tlsModes, mode) {
		errs = append(errs, fmt.Errorf("tls is not one of %s", strings.Join(tlsModes, ", ")))
	}
	if (c.Certificate == "") != (c.Key == "") {
		errs = append(errs, errors.New("sslcert needs sslkey, and the other way round"))
	}
	if c.Replication < 0 || c.Replication > maxReplication {
		errs = append(errs, fmt.Errorf("replication must be from 1 to %d", maxReplication))
	}
	if c.MinInSync < 0 || c.MinInSync > cmp.Or(c.Replication, maxReplication) {
		errs = append(errs, errors.New("min_insync_replicas must be from 1 to replication"))
	}
	return errors.Join(errs...)
}

// Validate checks how to log in.
func (s *SASL) Validate() error {
	if !slices.Contains(mechanisms, s.Mechanism) {
		return fmt.Errorf("mechanism is not one of %s", strings.Join(mechanisms, ", "))
	}
	if s.User == "" || s.Password == "" {
		return errors.New("user and password are needed")
	}
	return nil
}

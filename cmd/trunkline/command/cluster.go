package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/kafka"
	"github.com/trunkline/trunkline/pipeline/config"
)

// openCluster connects to the cluster that a configuration names in place of a folder.
func openCluster(ctx context.Context, c config.Cluster, topics log.TopicConfig, logger *slog.Logger) (*kafka.Log, error) {
	o := kafka.Options{Brokers: c.Brokers, Logger: logger, Default: topics, Replication: c.Replication, MinInSync: c.MinInSync}
	if c.SASL != nil {
		o.SASL = kafka.SASL{Mechanism: c.SASL.Mechanism, User: c.SASL.User, Password: c.SASL.Password}
	}
	var err error
	if o.TLS, err = clusterTLS(c); err != nil {
		return nil, fmt.Errorf("log.tls: %w", err)
	}
	return kafka.Open(ctx, o)
}

// clusterTLS has the meaning that PostgreSQL's clients gave to the modes: require encrypts, verify-ca also wants a
// certificate of a known authority, verify-full also one for the broker's name.
func clusterTLS(c config.Cluster) (*tls.Config, error) {
	mode := cmp.Or(c.TLS, "disable")
	if mode == "disable" {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.RootCert != "" {
		text, err := os.ReadFile(c.RootCert)
		if err != nil {
			return nil, fmt.Errorf("read sslrootcert: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("sslrootcert holds no certificate")
		}
	}
	if c.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(c.Certificate, c.Key)
		if err != nil {
			return nil, fmt.Errorf("load sslcert and sslkey: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	if mode == "verify-full" {
		return out, nil
	}
	roots := out.RootCAs
	out.InsecureSkipVerify = true // what is wanted is checked below
	if mode == "verify-ca" {
		out.VerifyConnection = func(state tls.ConnectionState) error {
			chain := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
			for _, cert := range state.PeerCertificates[1:] {
				chain.Intermediates.AddCert(cert)
			}
			_, err := state.PeerCertificates[0].Verify(chain)
			return err
		}
	}
	return out, nil
}

// checkCluster connects to a cluster and reads what the pipeline would read first. It writes nothing.
func checkCluster(ctx context.Context, c config.Log) (findings []connectors.Finding, err error) {
	journal, err := openCluster(ctx, c.Cluster, c.Topics.TopicConfig(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	if _, err := journal.Topics(ctx); err != nil {
		findings = append(findings, connectors.Finding{Severity: connectors.Fatal, Subject: "topics", Problem: err.Error(),
			Remedy: "let the user describe topics and their settings"})
	}
	if _, err := journal.Groups(ctx); err != nil {
		findings = append(findings, connectors.Finding{Severity: connectors.Fatal, Subject: "groups", Problem: err.Error(),
			Remedy: "let the user list and describe groups"})
	}
	brokers, err := journal.Brokers(ctx)
	if err == nil && brokers < c.Replication {
		findings = append(findings, connectors.Finding{Severity: connectors.Fatal, Subject: "replication",
			Problem: fmt.Sprintf("the cluster has %d brokers, and %d copies are asked for", brokers, c.Replication),
			Remedy:  "lower log.replication, or add brokers"})
	}
	return findings, err
}

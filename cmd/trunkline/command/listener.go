package command

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"syscall"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/broker"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline/config"
)

// listen opens the listener for Kafka clients; nil when it is off, or when the log is a cluster, to whose brokers clients
// connect. owner names the source that writes a topic.
func listen(all config.Config, opened log.Log, owner func(string) string, logger *slog.Logger) (*broker.Server, error) {
	cfg := all.Log
	journal, embedded := opened.(*disk.Log)
	if cfg.Listen == config.Off || !embedded {
		return nil, nil
	}
	o := broker.Options{Address: cfg.Listen, Advertised: cfg.Advertise, Logger: logger, Owner: owner,
		NoAutoCreate: cfg.AutoCreate != nil && !*cfg.AutoCreate,
		Reserved: func(group string) bool {
			return slices.ContainsFunc(all.Sinks, func(s config.Sink) bool { return s.Group == group })
		}}
	if cfg.Foreign {
		o.Owner = nil
	}
	for _, u := range cfg.Users {
		o.Users = append(o.Users, broker.User{Name: u.Name, Password: u.Password, ReadOnly: u.Access == "read"})
	}
	if cfg.ListenTLS.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(cfg.ListenTLS.Certificate, cfg.ListenTLS.Key)
		if err != nil {
			return nil, fmt.Errorf("load log.listen_tls: %w", err)
		}
		o.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	server, err := broker.Listen(journal, o)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("log.listen: %s is taken by another program: choose another address in the configuration, or off", cfg.Listen)
	}
	if err != nil {
		return nil, fmt.Errorf("open log.listen: %w", err)
	}
	logger.Info("Kafka clients can connect to " + server.Addr().String())
	return server, nil
}

// closeListener ends a listener that may be off.
func closeListener(s *broker.Server) error {
	if s == nil {
		return nil
	}
	return s.Close()
}

package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/trunkline/trunkline/connectors"
)

// readInfo returns what the server says of itself, by name.
func readInfo(ctx context.Context, db *redis.Client) (map[string]string, error) {
	text, err := db.Info(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// check looks whether the server is one that a sink can rely on.
func check(ctx context.Context, c *SinkConfig, _ connectors.Env) (findings []connectors.Finding, err error) {
	db, err := c.client()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	info, err := readInfo(ctx, db)
	if err != nil {
		return nil, err
	}
	add := func(severity connectors.Severity, subject, problem, remedy string) {
		findings = append(findings, connectors.Finding{Severity: severity, Subject: subject, Problem: problem, Remedy: remedy})
	}
	if info["cluster_enabled"] == "1" {
		add(connectors.Fatal, "cluster-enabled", errCluster, "")
	}
	if info["role"] == "slave" {
		add(connectors.Fatal, "role", "the server is a replica, which takes no writes", "connect to its master")
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" && info["maxmemory"] != "0" {
		add(connectors.Warning, "maxmemory-policy", fmt.Sprintf("with %s the server removes rows when its memory is full, and nothing brings them back", policy),
			"CONFIG SET maxmemory-policy noeviction")
	}
	if info["aof_enabled"] == "0" {
		add(connectors.Warning, "appendonly", "after a crash the server comes back with its last snapshot; what is missing then comes again from the log, if retention still has it",
			"CONFIG SET appendonly yes")
	}
	return findings, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// settings are what pipelines.yaml may say of a source of type counter.
type settings struct {
	To    int64         `yaml:"to"`    // the last number; run --once ends there
	Every time.Duration `yaml:"every"` // the time between two numbers
}

// Validate is called once the settings are read.
func (s *settings) Validate() error {
	if s.To < 1 {
		return errors.New("to is below 1")
	}
	return nil
}

// counter returns the connector. Decoding the settings touches nothing outside; opening connects.
func counter() connectors.Connector {
	return connectors.Connector{
		Name: "counter",
		Source: func(decode connectors.Decode) (connectors.OpenSource, error) {
			s := &settings{To: 10, Every: time.Second}
			if err := decode(s); err != nil {
				return nil, err
			}
			return func(_ context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
				return open(s, env, from)
			}, nil
		},
	}
}

// numbers is the table that the source pretends to read.
var numbers = &connectors.Table{
	Name: "numbers",
	Columns: []connectors.Column{
		{Name: "n", Type: "bigint", Kind: connectors.Int, NotNull: true},
		{Name: "square", Type: "numeric", Kind: connectors.Decimal},
	},
	Key: []int{0},
}

// source counts on from the last number that is in the log.
type source struct {
	settings *settings
	once     bool
	last     int64
}

// open resumes after a position. The position is ours alone: here it is the last number as text.
func open(s *settings, env connectors.Env, from connectors.Position) (connectors.Source, error) {
	src := &source{settings: s, once: env.Once}
	if from != nil {
		last, err := strconv.ParseInt(string(from), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read position: %w", err)
		}
		src.last = last
	}
	return src, nil
}

// Read waits for the next number.
func (s *source) Read(ctx context.Context) (connectors.Batch, error) {
	if s.last >= s.settings.To {
		if s.once {
			return connectors.Batch{}, io.EOF
		}
		<-ctx.Done()
		return connectors.Batch{}, ctx.Err()
	}
	select {
	case <-ctx.Done():
		return connectors.Batch{}, ctx.Err()
	case <-time.After(s.settings.Every):
	}
	s.last++
	square := strconv.AppendInt(nil, s.last*s.last, 10)
	return connectors.Batch{
		Changes: []connectors.Change{{
			Op: connectors.Insert, Table: numbers, Time: time.Now(),
			After: []connectors.Value{connectors.IntValue(s.last), connectors.DataValue(connectors.Decimal, square)},
		}},
		Position: strconv.AppendInt(nil, s.last, 10),
	}, nil
}

// Ack would tell a database what it may forget. Numbers are never forgotten.
func (s *source) Ack(context.Context, connectors.Position) error { return nil }

// Close has no goroutine to wait for.
func (s *source) Close(context.Context) error { return nil }

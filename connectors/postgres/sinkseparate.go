package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// separate writes changes in parts, each in a savepoint and in the order of the batch: a part that the server refuses
// is halved, down to the single change, and a single change that is refused stands in the result. A change is so judged
// in the state that all good changes before it have made. strict checks deferred constraints part by part too.
func (s *Sink) separate(ctx context.Context, changes []connectors.Change, strict bool) ([]connectors.RowError, error) {
	// A stage that a savepoint created would go with it, so all are made before, and none makes room for another.
	for i := range changes {
		if changes[i].Op == connectors.Message || i > 0 && changes[i].Table == changes[i-1].Table {
			continue
		}
		if t := s.routes[changes[i].Table].target; !slices.Contains(s.used, t) {
			s.used = append(s.used, t)
		}
	}
	for _, t := range slices.Clone(s.used) {
		if t.stage == "" {
			if err := s.createStage(ctx, t); err != nil {
				return nil, fmt.Errorf("create stage of %s: %w", t.sql, s.fault(err))
			}
		}
	}
	var refused []connectors.RowError
	err := s.halve(ctx, changes, 0, strict, &refused)
	return refused, err
}

func (s *Sink) halve(ctx context.Context, changes []connectors.Change, first int, strict bool, refused *[]connectors.RowError) error {
	if len(changes) == 0 {
		return nil
	}
	if _, err := s.exec(ctx, "SAVEPOINT part"); err != nil {
		return s.fault(err)
	}
	err := s.apply(ctx, changes, onebyone)
	if err == nil && strict {
		_, err = s.exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
		err = s.fault(err)
	}
	if err == nil {
		_, err = s.exec(ctx, "RELEASE SAVEPOINT part")
		return s.fault(err)
	}
	if !isRefusal(err) {
		return err
	}
	if _, err := s.exec(ctx, "ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part"); err != nil {
		return s.fault(err)
	}
	if len(changes) == 1 {
		var r refusal
		errors.As(err, &r)
		*refused = append(*refused, connectors.RowError{Index: first, Err: r})
		return nil
	}
	middle := len(changes) / 2
	if err := s.halve(ctx, changes[:middle], first, strict, refused); err != nil {
		return err
	}
	return s.halve(ctx, changes[middle:], first+middle, strict, refused)
}

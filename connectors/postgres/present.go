package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// Reach implements connectors.Follower. The server tells its end when it is asked, so each look asks.
func (s *Source) Reach(ctx context.Context) (func(connectors.Position) bool, error) {
	var end lsn
	err := s.catalog.separate(ctx, func(conn *pgx.Conn) (err error) {
		end, err = currentEnd(ctx, conn)
		return err
	})
	if err != nil {
		return nil, err
	}
	return func(p connectors.Position) bool {
		at, err := parsePosition(p)
		if err == nil && at.LSN >= end && at.Snapshot == nil {
			return true
		}
		if st := s.stream.Load(); st != nil {
			st.urged.Store(true)
			_ = st.wal.status(true) // a connection that is broken is found out by Read
			st.wal.wake()
		}
		return false
	}, nil
}

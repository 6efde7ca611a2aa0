//go:build !unix

package bench

import "context"

func absent(context.Context, *world, *loaded) (*filled, error) { return nil, errAbsent }

var fillRedis, fillClickHouse, fillSearch, fillParquet = absent, absent, absent, absent

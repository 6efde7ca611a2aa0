// Package localserver is a store for tests that speaks S3: gofakes3, in this process, on a free port of loopback.
//
// It promises what the sink relies on: an object is there whole or not at all, a listing shows what was written before, and
// a conditional put answers 412. It is no store of the kind that people run. Only tests call it.
package localserver

import (
	"net/http"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// AccessKey and SecretKey are what the tests sign with; the store takes every key.
const (
	AccessKey = "trunkline"
	SecretKey = "trunkline-secret"
)

// Handler returns an empty store.
func Handler() http.Handler {
	return gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server()
}

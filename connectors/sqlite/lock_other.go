//go:build !unix

package sqlite

import "os"

const noFollow = 0

// tryLock does nothing where the system has no such lock: there, two processes must not run one source at a time.
func tryLock(*os.File) (bool, error) { return true, nil }

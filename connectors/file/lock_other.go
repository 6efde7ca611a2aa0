//go:build !unix

package file

import "os"

// flock does nothing where the system has no such lock: there, two writers of one directory must not run at a time.
func flock(*os.File) error { return nil }

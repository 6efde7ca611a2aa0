package connectors

import "errors"

// SettleDeletes returns what a sink of tables does with deleted rows. By its settings write is upsert or append, and deletes is
// apply, soft or ignore, or empty: apply, but ignore with append, which cannot delete.
func SettleDeletes(write, deletes string) (string, error) {
	const upsert, add, apply, ignore = "upsert", "append", "apply", "ignore"
	var errs []error
	if write != upsert && write != add {
		errs = append(errs, errors.New("write is not one of upsert, append"))
	}
	switch deletes {
	case "":
		deletes = apply
		if write == add {
			deletes = ignore
		}
	case apply:
		if write == add {
			errs = append(errs, errors.New("deletes: apply needs write: upsert; with write: append a delete can be soft (one more row, marked) or ignore"))
		}
	case "soft", ignore:
	default:
		errs = append(errs, errors.New("deletes is not one of apply, soft, ignore"))
	}
	return deletes, errors.Join(errs...)
}

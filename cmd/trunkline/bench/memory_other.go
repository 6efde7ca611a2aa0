//go:build !linux

package bench

func peakMemory(int) int64 { return 0 }

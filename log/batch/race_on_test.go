//go:build race

package batch

// raceDetector makes pools drop what they hold, so that allocations cannot be counted.
const raceDetector = true

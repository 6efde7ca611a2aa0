package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// peakMemory returns the peak resident size that a running process has had so far, in bytes; zero when it has ended. The
// figure that wait hands out is of no use here: it begins with the size of the process that started it.
func peakMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

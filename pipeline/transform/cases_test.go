package transform_test

import (
	"os"
	"testing"

	"github.com/trunkline/trunkline/pipeline/cases"
	"github.com/trunkline/trunkline/pipeline/config"
)

// TestSteps runs the examples in testdata/steps.yaml, as trunkline test does.
func TestSteps(t *testing.T) {
	t.Parallel()
	const path = "testdata/steps.yaml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := cases.Load(path, text)
	if err != nil {
		t.Fatal(err)
	}
	results, err := file.Run(t.Context(), config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			if !r.OK {
				t.Errorf("- expected, + what came:\n%s", r.Diff)
			}
		})
	}
}

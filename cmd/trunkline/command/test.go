package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/pipeline/cases"
	"github.com/trunkline/trunkline/pipeline/config"
)

// trial is what test prints of one file.
type trial struct {
	File    string         `json:"file"`
	Results []cases.Result `json:"results"`
}

func (a *app) testCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "test [FILE…]", Short: "Run examples of what transforms do: rows in, rows out",
		Long: `Run examples of what transforms do, written in YAML: rows in, rows out. Without a
FILE it is the one beside the configuration, pipelines_test.yaml. Nothing is
connected to and nothing is written.

It exits with 0 when every example gives what it says, with 1 when one does not,
and with 2 when a file is not well formed.`,
		RunE: func(c *cobra.Command, files []string) error {
			if len(files) == 0 {
				files = []string{strings.TrimSuffix(a.file, filepath.Ext(a.file)) + "_test.yaml"}
			}
			return a.testFiles(c.Context(), files)
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON for machines")
	return c
}

func (a *app) testFiles(ctx context.Context, files []string) error {
	var trials []trial
	failed, all := 0, 0
	for _, path := range files {
		t, err := a.testFile(ctx, path)
		if err != nil {
			return err
		}
		trials = append(trials, t)
		for _, r := range t.Results {
			if all++; !r.OK {
				failed++
			}
		}
	}
	if err := a.printTrials(trials); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tests gave other rows than they say", failed, all)
	}
	return nil
}

func (a *app) testFile(ctx context.Context, path string) (trial, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return trial{}, usagef("there is no file %s: name a file of tests", path)
	}
	if err != nil {
		return trial{}, fmt.Errorf("read tests: %w", err)
	}
	file, err := cases.Load(path, text)
	if err != nil {
		return trial{}, err
	}
	var c config.Config
	if file.NeedsConfig() {
		if c, err = a.load(); err != nil {
			return trial{}, err
		}
	}
	results, err := file.Run(ctx, c)
	if err != nil {
		return trial{}, usagef("%s: %w", path, err)
	}
	return trial{path, results}, nil
}

func (a *app) printTrials(trials []trial) error {
	if a.json {
		return a.printJSON(trials)
	}
	for _, t := range trials {
		passed := 0
		for _, r := range t.Results {
			if r.OK {
				passed++
				fmt.Fprintf(a.out, "ok    %s\n", r.Name)
				continue
			}
			fmt.Fprintf(a.out, "FAIL  %s\n", r.Name)
			for line := range strings.Lines(r.Diff) {
				fmt.Fprint(a.out, "      "+line)
			}
		}
		fmt.Fprintf(a.out, "%s: %d passed, %d failed\n", t.File, passed, len(t.Results)-passed)
	}
	return nil
}

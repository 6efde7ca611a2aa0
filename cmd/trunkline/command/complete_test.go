package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
)

// leaves calls f with every command that does something.
func leaves(c *cobra.Command, f func(*cobra.Command)) {
	if !c.HasSubCommands() {
		f(c)
	}
	for _, child := range c.Commands() {
		leaves(child, f)
	}
}

// What a command prints, a program can read: each has --json but those that print no facts.
func TestEveryCommandWithFactsHasJSON(t *testing.T) {
	t.Parallel()
	without := map[string]string{
		"trunkline run":     "a log, which --log json makes one for machines",
		"trunkline serve":   "likewise",
		"trunkline consume": "records, which --format json makes ones for machines",
	}
	n := 0
	leaves((&app{}).root(), func(c *cobra.Command) {
		n++
		_, excused := without[c.CommandPath()]
		switch has := c.Flags().Lookup("json") != nil; {
		case has && excused:
			t.Errorf("%s has --json, and an excuse for not having it", c.CommandPath())
		case !has && !excused:
			t.Errorf("%s has no --json", c.CommandPath())
		}
	})
	if n < 20 {
		t.Errorf("the walk found %d commands", n)
	}
}

// Every argument and every flag with few values that a command names can be completed, or says why not.
func TestEveryArgumentCanBeCompleted(t *testing.T) {
	t.Parallel()
	free := map[string]bool{ // what is new or is the name of a file
		"trunkline init": true, "trunkline test": true, "trunkline topics create": true, "trunkline log dump": true, "trunkline log verify": true,
	}
	leaves((&app{}).root(), func(c *cobra.Command) {
		if _, arguments, _ := strings.Cut(c.Use, " "); arguments != "" && !strings.HasPrefix(arguments, "-") && c.ValidArgsFunction == nil && !free[c.CommandPath()] {
			t.Errorf("the arguments of %s cannot be completed", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if _, usage := pflag.UnquoteUsage(f); strings.Contains(strings.Split(f.Usage, "`")[min(1, strings.Count(f.Usage, "`"))], "|") && usage != "" {
				if _, ok := c.GetFlagCompletionFunc(f.Name); !ok {
					t.Errorf("--%s of %s cannot be completed", f.Name, c.CommandPath())
				}
			}
		})
	})
}

// The names that a shell offers come from the configuration and from the log.
func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "pipelines.yaml")
	text := fmt.Sprintf("log: {dir: %q, listen: off}\nsources:\n  shop: {type: memory, feed: \"${NOT_SET-}\"}\n  shore: {type: memory}\nsinks:\n  copy: {type: memory, topics: [\"*\"]}\n", dir+"/log")
	if err := os.WriteFile(file, []byte(strings.Replace(text, `, feed: "${NOT_SET-}"`, "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		var out, problems bytes.Buffer
		if code := Run(context.WithoutCancel(t.Context()), Options{Connectors: []connectors.Connector{memory.NewSpace().Connector()}}, args, strings.NewReader("a\n"), &out, &problems); code != 0 {
			t.Fatalf("%v ended with %d: %s", args, code, problems.String())
		}
		return out.String()
	}
	offered := func(args ...string) []string {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(run(append([]string{"__complete"}, args...)...)), "\n")
		return lines[:len(lines)-1] // the last one tells the shell what to do with them
	}
	run("topics", "create", "shop.public.orders", "-f", file)
	run("topics", "create", "other", "-f", file)
	run("produce", "other", "-f", file)
	run("consume", "other", "--group", "readers", "--max", "1", "-f", file)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"pause", "-f", file, "sh"}, []string{"shop", "shore"}},
		{[]string{"resume", "-f", file, ""}, []string{"copy", "shop", "shore"}},
		{[]string{"pause", "-f", file, "copy/"}, []string{"copy/other", "copy/shop.public.orders"}},
		{[]string{"pause", "-f", file, "shop", ""}, nil},
		{[]string{"verify", "-f", file, ""}, []string{"copy"}},
		{[]string{"deadletters", "list", "-f", file, "c"}, []string{"copy"}},
		{[]string{"run", "-f", file, "--only", "s"}, []string{"shop", "shore"}},
		{[]string{"topics", "describe", "-f", file, ""}, []string{"other", "shop.public.orders"}},
		{[]string{"consume", "-f", file, "sho"}, []string{"shop.public.orders"}},
		{[]string{"consume", "-f", file, "other", "--format", ""}, []string{"json", "value"}},
		{[]string{"groups", "reset", "-f", file, "re"}, []string{"readers"}},
		{[]string{"groups", "reset", "-f", file, "readers", "--topic", "o"}, []string{"other"}},
		{[]string{"pause", "-f", filepath.Join(dir, "none.yaml"), ""}, nil},
		{[]string{"topics", "describe", "-f", filepath.Join(dir, "none.yaml"), ""}, nil},
	} {
		if got := offered(c.args...); !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
			t.Errorf("%v offers %q, want %q", c.args, got, c.want)
		}
	}
	// A variable that is not set keeps nobody from the names.
	if err := os.WriteFile(file, []byte(strings.Replace(text, "${NOT_SET-}", "${TRUNKLINE_TEST_NOT_SET}", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := offered("pause", "-f", file, "sh"); !slices.Equal(got, []string{"shop", "shore"}) {
		t.Errorf("with a variable that is not set: %q", got)
	}
}

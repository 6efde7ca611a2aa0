package cmd

import (
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

// program builds the program once for all tests.
func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "trunkline-program-"); built.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", built.dir, "./trunkline").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build the program: %w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "trunkline")
}

// TestReadmeIsTrue holds what the README and the docs show against the program: each command exists, each configuration
// is accepted, each file that is linked is there.
func TestReadmeIsTrue(t *testing.T) {
	program := program(t)
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"../docs/sinks/*.md", "../docs/sources/*.md", "../examples/*/README.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	for _, page := range append(pages, "../README.md") {
		t.Run(strings.TrimPrefix(page, "../"), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			checkCommands(t, program, string(text))
			checkConfigurations(t, program, string(text))
			checkLinks(t, filepath.Dir(page), string(text))
		})
	}
}

// command is a call of the program in a block of shell, without its comment.
var command = regexp.MustCompile(`(?m)^(?:[A-Z_]+=\S+ )*(?:trunkline|bin/trunkline|go run (?:\.\./\.\./|\./)cmd/trunkline)((?: [a-z][a-z-]*)*)((?: --[a-z-]+)*)`)

func checkCommands(t *testing.T, program, text string) {
	for _, block := range blocks(text, "sh") {
		for _, m := range command.FindAllStringSubmatch(block, -1) {
			words := strings.Fields(m[1])
			if len(words) > 2 {
				words = words[:2]
			}
			out, err := exec.Command(program, append(words, "--help")...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %s", strings.TrimSpace(m[0]), out)
			}
			for _, flag := range strings.Fields(m[2]) {
				if !strings.Contains(string(out), flag) {
					t.Errorf("%s: there is no %s", strings.TrimSpace(m[0]), flag)
				}
			}
		}
	}
}

// checkConfigurations lets the program read every block that begins with a section of pipelines.yaml.
func checkConfigurations(t *testing.T, program, text string) {
	for _, block := range blocks(text, "yaml") {
		if !regexp.MustCompile(`(?m)\A(#.*\n)*(log|http|sources|sinks):`).MatchString(block) {
			continue
		}
		path := filepath.Join(t.TempDir(), "pipelines.yaml")
		if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "check", "-f", path)
		cmd.Env = os.Environ()
		for _, m := range regexp.MustCompile(`\$\{([A-Z_]+)\}`).FindAllStringSubmatch(block, -1) {
			value := "correct-horse"
			if strings.HasSuffix(m[1], "DSN") {
				value = "postgres://user@localhost/db"
			}
			cmd.Env = append(cmd.Env, m[1]+"="+value)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("the program refuses\n%s\n%s", block, out)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)\)`)

func checkLinks(t *testing.T, dir, text string) {
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
			t.Errorf("link to %s: %v", m[1], err)
		}
	}
}

// blocks returns the fenced blocks of a language.
func blocks(text, language string) []string {
	var list []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// TestEverySettingIsDocumented looks for each key of the configuration in docs/configuration.md, and for those of transforms in docs/transforms.md.
func TestEverySettingIsDocumented(t *testing.T) {
	configuration, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	transforms, err := os.ReadFile("../docs/transforms.md")
	if err != nil {
		t.Fatal(err)
	}
	_, files := parseModule(t)
	tag := regexp.MustCompile("yaml:\"([a-z_]+)")
	for _, s := range files {
		dir := strings.Split(s.path, "/")
		page, text, named := "configuration.md", configuration, "[`.]%s[`:]"
		if strings.HasPrefix(s.path, "pipeline/transform/") || strings.HasPrefix(s.path, "pipeline/cases/") {
			page, text, named = "transforms.md", transforms, `[`+"`"+`.{\s]%s[`+"`"+`:,}]`
		} else if s.test || dir[0] != "connectors" && !strings.HasPrefix(s.path, "pipeline/config/") || strings.HasPrefix(s.path, "connectors/memory/") {
			continue
		}
		source, err := os.ReadFile("../" + s.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range tag.FindAllStringSubmatch(string(source), -1) {
			if !regexp.MustCompile(fmt.Sprintf(named, m[1])).Match(text) {
				t.Errorf("docs/%s: no word about %s, which %s reads", page, m[1], s.path)
			}
		}
	}
}

// TestProofsExist looks for each test that a page names.
func TestProofsExist(t *testing.T) {
	_, files := parseModule(t)
	known := map[string]bool{}
	for _, f := range files {
		for _, d := range f.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				known[f.Name.Name] = true
			}
		}
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(len(pages), err)
	}
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`").FindAllStringSubmatch(string(text), -1) {
			if named++; !known[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d proofs are named", named)
	}
}

package cmd

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// packageFile is one entry of the deb and the rpm.
type packageFile struct {
	Src, Dst, Type string
	Info           struct{ Mode os.FileMode } `yaml:"file_info"`
}

// TestPackageIsWhole holds the definition of the deb and the rpm against the files of the checkout and against the program:
// what it packs is there, and the unit calls the packed program with the packed configuration in a way that it takes.
func TestPackageIsWhole(t *testing.T) {
	const definition = "scripts/package/nfpm.yaml"
	text, err := os.ReadFile("../" + definition)
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Contents []packageFile
		Scripts  map[string]string
	}
	if err := yaml.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	at := func(dst string) *packageFile {
		i := slices.IndexFunc(p.Contents, func(f packageFile) bool { return f.Dst == dst })
		if i < 0 {
			t.Fatalf("%s packs no %s", definition, dst)
		}
		return &p.Contents[i]
	}
	for _, f := range p.Contents {
		if strings.HasPrefix(f.Src, "dist/") || f.Type == "dir" { // made by scripts/release
			continue
		}
		if _, err := os.Stat("../" + f.Src); err != nil {
			t.Errorf("%s: %v", definition, err)
		}
	}
	if len(p.Scripts) < 3 {
		t.Errorf("%s has only the scripts %v", definition, p.Scripts)
	}
	for _, script := range p.Scripts {
		if out, err := exec.Command("sh", "-n", "../"+script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
		if info, err := os.Stat("../" + script); err == nil && info.Mode()&0o111 == 0 {
			t.Errorf("%s is not executable", script)
		}
	}

	unit, err := os.ReadFile("../" + at("/usr/lib/systemd/system/trunkline.service").Src)
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(string(unit))
	if call == nil {
		t.Fatal("the unit starts nothing")
	}
	args := strings.Fields(call[1])
	if mode := at(args[0]).Info.Mode; mode != 0o755 {
		t.Errorf("%s has the mode %o", args[0], mode)
	}
	i := slices.Index(args, "-f")
	if i < 0 {
		t.Fatalf("the unit names no configuration: %s", call[1])
	}
	config := at(args[i+1])
	if config.Type != "config|noreplace" || config.Info.Mode&0o007 != 0 {
		t.Errorf("%s is of type %q and mode %o: an upgrade has to spare it, and others not to read it", config.Dst, config.Type, config.Info.Mode)
	}
	program := program(t)
	args[i+1] = "../" + config.Src
	for _, args := range [][]string{{"check", "-f", args[i+1]}, append(slices.Clone(args[1:]), "--help")} {
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Errorf("trunkline %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}

	image, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`ENTRYPOINT ["` + args[0] + `"]`, `CMD ["run", "-f", "` + config.Dst + `"]`} {
		if !strings.Contains(string(image), want) {
			t.Errorf("the Dockerfile starts the program in another way than the unit: no %s", want)
		}
	}
}

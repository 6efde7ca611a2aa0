package kafkaclients

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestConfluentsDeserializersReadAvroAndProtobuf runs a shop into topics of both encodings and lets Confluent's client read
// them, with the registry that is built in.
func TestConfluentsDeserializersReadAvroAndProtobuf(t *testing.T) {
	t.Parallel()
	if os.Getenv(skip) != "" {
		t.Skip(skip + " is set")
	}
	folder := filepath.Dir(installed(t, "schemas/complete"))
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: t.TempDir()}
	shop, err := os.ReadFile("../quickstart/shop.db")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "shop.db"), shop, 0o600); err != nil {
		t.Fatal(err)
	}
	var ports []string
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().String())
		listener.Close()
	}
	d.address = ports[0]
	text := fmt.Sprintf(`
log: {dir: log, listen: %s}
http: {listen: %s}
sources:
  avro: {type: sqlite, path: shop.db, tables: [{name: orders, cursor: updated_at}], encoding: avro}
  proto: {type: sqlite, path: shop.db, tables: [{name: orders, cursor: updated_at}], encoding: protobuf}
`, ports[0], ports[1])
	if err := os.WriteFile(filepath.Join(d.dir, "pipelines.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "run", "--log", "plain")
	cmd.Dir = d.dir
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := <-ended; err != nil {
			t.Errorf("run: %v: %s", err, output.String())
		}
	}()
	registry := "http://" + ports[1] + "/registry"
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if len(subjects(registry)) >= 4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the registry has the subjects %v: %s", subjects(registry), output.String())
		}
	}
	t.Log(d.run("", []string{"PYTHONPATH=" + folder, "REGISTRY=" + registry}, python(t), "schemas.py"))
}

// subjects asks a registry; nil while it does not answer.
func subjects(registry string) []string {
	answer, err := http.Get(registry + "/subjects")
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	buffer := make([]byte, 4096)
	n, _ := answer.Body.Read(buffer) // a short list comes in one piece
	list := strings.Trim(strings.TrimSpace(string(buffer[:n])), "[]")
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

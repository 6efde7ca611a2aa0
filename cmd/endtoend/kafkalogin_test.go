package endtoend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/kafka"
	"github.com/trunkline/trunkline/log/kafka/localcluster"
)

// TestSourceThroughTLSAndEachLogin reads a topic of a real broker that wants TLS and a login, and is refused without them, in
// words that hold no password.
func TestSourceThroughTLSAndEachLogin(t *testing.T) {
	t.Parallel()
	const user, password = "etl", "correct horse"
	certificate, key := conformance.Certificate(t, "127.0.0.1")
	file := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(file, []byte(certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := localcluster.Start(t.Context(), t.TempDir(), localcluster.Options{
		Secure: &localcluster.Secure{Certificate: certificate, Key: key, User: user, Password: password}})
	if errors.Is(err, localcluster.ErrNotFound) && os.Getenv("TRUNKLINE_SKIP_CLIENTS") != "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(certificate))
	writer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Secure...), kgo.DefaultProduceTopic("orders"),
		kgo.DialTLSConfig(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}), kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := kadm.NewClient(writer).CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	if err := writer.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}

	login := func(mechanism string) *kafka.SASL {
		return &kafka.SASL{Mechanism: mechanism, User: user, Password: password}
	}
	opener := func(mode, roots string, login *kafka.SASL) connectors.OpenSource {
		open, err := kafka.Connector().Source(func(into any) error {
			c := into.(*kafka.SourceConfig)
			c.Brokers, c.Topics, c.Group, c.SASL, c.TLS.TLS, c.RootCert = cluster.Secure, []string{"orders"}, "off", login, mode, roots
			return c.Validate()
		})
		if err != nil {
			t.Fatal(err)
		}
		return open
	}
	env := connectors.NewEnv("in")
	env.Once = true
	for _, way := range []struct{ mode, roots, mechanism string }{
		{"verify-full", file, "PLAIN"}, {"verify-full", file, "SCRAM-SHA-256"}, {"verify-full", file, "SCRAM-SHA-512"}, {"verify-ca", file, "PLAIN"}, {"require", "", "SCRAM-SHA-256"},
	} {
		s, err := opener(way.mode, way.roots, login(way.mechanism))(t.Context(), env, nil)
		if err != nil {
			t.Errorf("%+v: %v", way, err)
			continue
		}
		if b, err := s.Read(t.Context()); err != nil || len(b.Changes) != 1 {
			t.Errorf("%+v: %d records, %v; want one", way, len(b.Changes), err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	wrong := login("SCRAM-SHA-512")
	wrong.Password = "battery staple"
	for name, open := range map[string]connectors.OpenSource{
		"a wrong password":     opener("verify-full", file, wrong),
		"no login":             opener("verify-full", file, nil),
		"an unknown authority": opener("verify-full", "", login("PLAIN")),
		"no TLS":               opener("", "", login("PLAIN")),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		s, err := open(ctx, env, nil)
		cancel()
		if err == nil {
			_ = s.Close(context.Background())
			t.Errorf("%s: the broker let it in", name)
			continue
		}
		if text := err.Error(); !strings.Contains(text, "open kafka") || strings.Contains(text, "staple") || strings.Contains(text, "horse") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package endtoend

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/kafka"
	"github.com/trunkline/trunkline/log/kafka/localcluster"
)

// authority makes a certificate for 127.0.0.1 that vouches for itself and its key, as PEM, and a file with the former.
func authority(t *testing.T) (certificate, key, file string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must(err)
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	file = filepath.Join(t.TempDir(), "authority.pem")
	must(os.WriteFile(file, block, 0o600))
	return string(block), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), file
}

// TestSourceThroughTLSAndEachLogin reads a topic of a real broker that wants TLS and a login, and is refused without them, in
// words that hold no password.
func TestSourceThroughTLSAndEachLogin(t *testing.T) {
	t.Parallel()
	const user, password = "etl", "correct horse"
	certificate, key, file := authority(t)
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

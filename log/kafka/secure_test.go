package kafka_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/kafka"
	"github.com/trunkline/trunkline/log/kafka/localcluster"
)

func TestLogin(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.EnableSASL(), kfake.User("PLAIN", "etl", "plain-secret"), kfake.User("SCRAM-SHA-256", "etl", "scram-secret"),
		kfake.User("SCRAM-SHA-512", "etl", "scram-secret"))
	for _, c := range []struct{ mechanism, password, refused string }{
		{"PLAIN", "plain-secret", ""},
		{"SCRAM-SHA-256", "scram-secret", ""},
		{"SCRAM-SHA-512", "scram-secret", ""},
		{"PLAIN", "another-secret", "open cluster"},
		{"", "", "open cluster"},
		{"GSSAPI", "x", "not one of PLAIN"},
	} {
		t.Run(c.mechanism+" with "+c.password, func(t *testing.T) {
			t.Parallel()
			l, err := kafka.Open(t.Context(), kafka.Options{Brokers: brokers, ConnectTimeout: 3 * time.Second,
				SASL: kafka.SASL{Mechanism: c.mechanism, User: "etl", Password: c.password}})
			if c.refused == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := l.CreateTopic(t.Context(), "orders-"+c.mechanism, log.TopicConfig{}); err != nil {
					t.Error(err)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Fatalf("error is %v", err)
			}
			if c.password != "" && len(c.password) > 1 && strings.Contains(err.Error(), c.password) {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// certificate makes one for 127.0.0.1 that vouches for itself, and its key, as PEM.
func certificate(t *testing.T) (pemCertificate, pemKey string, roots *x509.CertPool) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	roots = x509.NewCertPool()
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	roots.AppendCertsFromPEM(block)
	return string(block), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), roots
}

// TestSecureBroker goes through TLS and every mechanism to a real broker, with all that a log does: topics, a transaction
// with its mark, and a group.
func TestSecureBroker(t *testing.T) {
	t.Parallel()
	const user, password = "etl", "correct horse"
	cert, key, roots := certificate(t)
	c := startCluster(t, localcluster.Options{Secure: &localcluster.Secure{Certificate: cert, Key: key, User: user, Password: password}})
	trusting := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	for _, mechanism := range kafka.Mechanisms() {
		t.Run(mechanism, func(t *testing.T) {
			l := open(t, kafka.Options{Brokers: c.Secure, TLS: trusting, SASL: kafka.SASL{Mechanism: mechanism, User: user, Password: password}, ConnectTimeout: time.Minute})
			secureRoundTrip(t, l, "orders-"+mechanism)
		})
	}
	for name, o := range map[string]kafka.Options{
		"a wrong password":     {TLS: trusting, SASL: kafka.SASL{Mechanism: "SCRAM-SHA-512", User: user, Password: "battery staple"}},
		"no login":             {TLS: trusting},
		"an unknown authority": {TLS: &tls.Config{MinVersion: tls.VersionTLS12}, SASL: kafka.SASL{Mechanism: "PLAIN", User: user, Password: password}},
		"no TLS":               {SASL: kafka.SASL{Mechanism: "PLAIN", User: user, Password: password}},
	} {
		t.Run(name, func(t *testing.T) {
			o.Brokers, o.ConnectTimeout = c.Secure, 3*time.Second
			l, err := kafka.Open(t.Context(), o)
			if err == nil {
				_ = l.Close()
				t.Fatal("the broker let it in")
			}
			if !strings.Contains(err.Error(), "open cluster "+c.Secure[0]) || strings.Contains(err.Error(), "staple") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func secureRoundTrip(t *testing.T, l *kafka.Log, topic string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must(l.CreateTopic(ctx, topic, log.TopicConfig{Partitions: 1}))
	p, _, err := l.Producer(ctx, topic)
	must(err)
	must(p.Append(ctx, log.TopicPartition{Topic: topic}, log.Record{Value: []byte("v")}))
	must(p.Commit(ctx, []byte("m")))
	reader, err := l.Consumer(ctx, log.ConsumerOptions{Group: "g-" + topic, Topics: []string{topic}})
	must(err)
	for read := 0; read < 1; {
		f, err := reader.Poll(ctx, 10)
		must(err)
		read += len(f.Records)
	}
	must(reader.Close(ctx))
	must(p.Close(ctx))
	again, mark, err := l.Producer(ctx, topic)
	must(err)
	if string(mark) != "m" {
		t.Errorf("mark is %q, want m", mark)
	}
	must(again.Close(ctx))
	must(l.Close())
}

func TestNoBrokerAnswers(t *testing.T) {
	t.Parallel()
	_, err := kafka.Open(t.Context(), kafka.Options{Brokers: []string{"127.0.0.1:1"}, ConnectTimeout: time.Second})
	if err == nil || !strings.Contains(err.Error(), "open cluster 127.0.0.1:1") {
		t.Fatalf("error is %v", err)
	}
}

package broker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/trunkline/trunkline/log"
)

var testUsers = []User{{Name: "ada", Password: "correct horse"}, {Name: "bob", Password: "battery staple", ReadOnly: true}}

func mechanismsFor(user, password string) map[string]sasl.Mechanism {
	return map[string]sasl.Mechanism{
		"PLAIN":         saslplain.Auth{User: user, Pass: password}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: user, Pass: password}.AsSha256Mechanism(),
		"SCRAM-SHA-512": scram.Auth{User: user, Pass: password}.AsSha512Mechanism(),
	}
}

// pair makes a certificate for 127.0.0.1.
func pair(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "log"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(made)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: roots}
}

func TestUsersLogIn(t *testing.T) {
	t.Parallel()
	server, client := pair(t)
	for name, secure := range map[string]bool{"over TCP": false, "over TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Users: testUsers}
			var opts []kgo.Opt
			if secure {
				o.TLS = server
				opts = append(opts, kgo.DialTLSConfig(client))
			}
			r := openRig(t, o)
			ctx := r.context()
			if err := r.journal.CreateTopic(ctx, "t", log.TopicConfig{}); err != nil {
				t.Fatal(err)
			}
			n := 0
			for mechanism, auth := range mechanismsFor("ada", "correct horse") {
				c := r.client(append(opts, kgo.SASL(auth), kgo.DefaultProduceTopic("t"))...)
				if err := c.ProduceSync(ctx, kgo.StringRecord(mechanism)).FirstErr(); err != nil {
					t.Errorf("%s: %v", mechanism, err)
				}
				n++
			}
			for mechanism, auth := range mechanismsFor("bob", "battery staple") {
				c := r.client(append(opts, kgo.SASL(auth), kgo.ConsumeTopics("t"), kgo.ConsumerGroup(mechanism), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
				r.consume(c, n)
				if err := c.ProduceSync(ctx, &kgo.Record{Topic: "t"}).FirstErr(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
					t.Errorf("a reader wrote by %s: %v", mechanism, err)
				}
				c.Close()
			}
			for mechanism, auth := range mechanismsFor("ada", "wrong") {
				if err := r.client(append(opts, kgo.SASL(auth))...).Ping(ctx); !errors.Is(err, kerr.SaslAuthenticationFailed) {
					t.Errorf("a wrong password by %s: %v", mechanism, err)
				}
			}
		})
	}
}

func TestStrangersGetNothing(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{Users: testUsers})
	t.Run("but the versions", func(t *testing.T) {
		w := r.wire()
		w.t = t
		w.ask(version(kmsg.NewPtrApiVersionsRequest(), 0))
		w.send(version(kmsg.NewPtrMetadataRequest(), 1))
		w.closed()
	})
	t.Run("and no room", func(t *testing.T) {
		w := r.wire()
		w.t = t
		w.write([]byte{0, 2, 0, 0, 0, 18, 0, 0})
		w.closed()
	})
	t.Run("a handshake lists the mechanisms in any case", func(t *testing.T) {
		for v := range int16(2) {
			w := r.wire()
			w.t = t
			req := version(kmsg.NewPtrSASLHandshakeRequest(), v)
			req.Mechanism = "GSSAPI"
			resp := w.ask(req).(*kmsg.SASLHandshakeResponse)
			if resp.ErrorCode != kerr.UnsupportedSaslMechanism.Code || len(resp.SupportedMechanisms) != 3 {
				t.Errorf("version %d: %+v", v, resp)
			}
			req.Mechanism = "PLAIN"
			if resp = w.ask(req).(*kmsg.SASLHandshakeResponse); resp.ErrorCode != 0 || len(resp.SupportedMechanisms) != 3 {
				t.Errorf("version %d: %+v", v, resp)
			}
		}
	})
	t.Run("until they send their password in a bare frame", func(t *testing.T) {
		w := r.wire()
		w.t = t
		req := version(kmsg.NewPtrSASLHandshakeRequest(), 0)
		req.Mechanism = "PLAIN"
		w.ask(req)
		w.frame([]byte("\x00ada\x00correct horse"))
		if b, err := w.read(); err != nil || len(b) != 0 {
			t.Fatalf("answered % x, %v", b, err)
		}
		w.ask(version(kmsg.NewPtrMetadataRequest(), 1))
	})
}

func TestExposedListenerIsRefused(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:9092"} {
		if s, err := Listen(r.journal, Options{Address: address}); !errors.Is(err, ErrExposed) {
			t.Errorf("%s: %v", address, err)
			if err == nil {
				s.Close()
			}
		}
	}
	s, err := Listen(r.journal, Options{Address: "0.0.0.0:0", Users: testUsers})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.mechanisms(); len(got) != 2 {
		t.Errorf("without TLS, off loopback, %v are offered", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

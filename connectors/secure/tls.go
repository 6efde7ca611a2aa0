// Package secure holds the settings of TLS that connectors have in common.
//
// It promises one meaning of tls, sslrootcert, sslcert and sslkey for all of them: that of libpq's sslmode. It opens no
// connection. Connectors whose library takes a *tls.Config embed TLS in their settings.
package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS says how a connection is protected.
type TLS struct {
	TLS      string `yaml:"tls"`         // disable | require | verify-ca | verify-full
	RootCert string `yaml:"sslrootcert"` // a file; the certificates of the system
	Cert     string `yaml:"sslcert"`     // a file, for servers that ask who connects
	Key      string `yaml:"sslkey"`      // a file
}

// Validate checks the settings, without looking at the files.
func (t *TLS) Validate() error {
	var errs []error
	switch t.TLS {
	case "", "disable", "require", "verify-ca", "verify-full":
	default:
		errs = append(errs, errors.New("tls is not one of disable, require, verify-ca, verify-full"))
	}
	if (t.Cert == "") != (t.Key == "") {
		errs = append(errs, errors.New("sslcert needs sslkey, and the other way round"))
	}
	return errors.Join(errs...)
}

// Config reads the files and returns what a connection to host takes; nil for plain text. mode stands for a tls that is
// not set.
func (t *TLS) Config(host, mode string) (*tls.Config, error) {
	if t.TLS != "" {
		mode = t.TLS
	}
	if mode == "disable" {
		return nil, nil
	}
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: mode != "verify-full"}
	if t.RootCert != "" {
		text, err := os.ReadFile(t.RootCert)
		if err != nil {
			return nil, fmt.Errorf("read sslrootcert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("sslrootcert holds no certificate")
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("read sslcert and sslkey: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if mode == "verify-ca" {
		config.VerifyConnection = chainVerifier(config.RootCAs)
	}
	return config, nil
}

// chainVerifier checks who signed a certificate, and not whom it names.
func chainVerifier(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}
